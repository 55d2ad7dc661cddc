// Library steps: running sums, products and extremes along one dimension of a contiguous (outer, n, inner) tensor.
//
// Elements are combined one after the other, as eager does: results agree bit by bit. Lines are
// independent: lanes hold neighbouring lines where inner > 1, members of the team share the lines.
#pragma once
#include "jitcap_dot.h"

namespace jc {
// scan<Op, A>: accumulates in A from the first element on. T is the element's type in memory, R the result's.
template <class Op, class A, class T, class R> JC_NOINLINE void scan(i64 outer, i64 n, i64 inner, const T *x, R *out) {
  constexpr int W = JC_BYTES / (sizeof(A) > sizeof(T) ? sizeof(A) : sizeof(T));
  auto line = [=](const T *p, R *o) {
    A sum = cvt<A>(load<1>(p));
    store(o, sum);
    for (i64 i = 1; i < n; i++) {
      sum = Op::apply(sum, cvt<A>(load<1>(p + i * inner)));
      store(o + i * inner, sum);
    }
  };
  auto lines = [=](const T *p, R *o, int live) {
    vec<A, W> sum = cvt<A>(load_n<W>(p, live));
    store_n(o, sum, live);
    for (i64 i = 1; i < n; i++) {
      sum = Op::apply(sum, vec<A, W>(cvt<A>(load_n<W>(p + i * inner, live))));
      store_n(o + i * inner, sum, live);
    }
  };
  i64 blocks = inner == 1 ? 1 : (inner + W - 1) / W;
  parallel(outer * blocks, 1, team_for(outer * n * inner * (i64)(sizeof(T) + sizeof(R))), [=](i64 lo, i64 hi) {
    for (i64 b = lo; b < hi; b++) {
      i64 first = b % blocks * W, at = b / blocks * n * inner + first;
      if (inner == 1) line(x + at, out + at);
      else lines(x + at, out + at, inner - first < W ? (int)(inner - first) : W);
    }
  });
}
// log(exp(a) + exp(b)), from the larger one; equal infinities stay.
struct LogAddExp {
  template <class V> static JC_INLINE V apply(V a, V b) {
    V d = a - b, sum = max(a, b) + log1p(exp(-abs(d)));
    return select(eq(d, d), sum, select(eq(a, b), a, a + b));
  }
};
// The extreme so far and where it was last reached; NaN wins and stays.
template <bool Max, class T> JC_NOINLINE void scan_extreme(i64 outer, i64 n, i64 inner, const T *x, T *values, i64 *places) {
  parallel(outer * inner, 1, team_for(outer * n * inner * (i64)(2 * sizeof(T) + 8)), [=](i64 lo, i64 hi) {
    i64 line = lo;
    while (line < hi) {  // as many neighbouring lines as lie in one run of memory
      i64 first = line % inner, m = inner - first < hi - line ? inner - first : hi - line, at = line / inner * n * inner + first;
      for (i64 k = 0; k < m; k++) values[at + k] = x[at + k], places[at + k] = 0;
      for (i64 i = 1; i < n; i++) {
        at += inner;
        for (i64 k = 0; k < m; k++) {
          auto v = load<1>(x + at + k), best = load<1>(values + at + k - inner);
          bool wins = v != v || (Max ? v >= best : v <= best);
          values[at + k] = wins ? x[at + k] : values[at + k - inner];
          places[at + k] = wins ? i : places[at + k - inner];
        }
      }
      line += m;
    }
  });
}
}  // namespace jc
