// Library steps: orthogonal polynomials by their recurrence, of a degree for each element.
#pragma once
#include "jitcap_dot.h"

namespace jc {
// p[1], and p[k+1] = step * p[k] - less * p[k-1]; Shift: of 2 x - 1.
template <int Multiple, int Offset, bool Shift> struct Chebyshev {
  template <class T> static JC_INLINE T first(T x) { return Multiple * (Shift ? 2 * x - 1 : x) + Offset; }
  template <class T> static JC_INLINE T step(T, T x) { return 2 * (Shift ? 2 * x - 1 : x); }
  template <class T> static JC_INLINE T less(T) { return 1; }
};
template <int Multiple> struct Hermite {
  template <class T> static JC_INLINE T first(T x) { return Multiple * x; }
  template <class T> static JC_INLINE T step(T, T x) { return Multiple * x; }
  template <class T> static JC_INLINE T less(T k) { return Multiple * k; }
};
struct Laguerre {
  template <class T> static JC_INLINE T first(T x) { return 1 - x; }
  template <class T> static JC_INLINE T step(T k, T x) { return (2 * k + 1 - x) / (k + 1); }
  template <class T> static JC_INLINE T less(T k) { return k / (k + 1); }
};
struct Legendre {
  template <class T> static JC_INLINE T first(T x) { return x; }
  template <class T> static JC_INLINE T step(T k, T x) { return (2 * k + 1) * x / (k + 1); }
  template <class T> static JC_INLINE T less(T k) { return k / (k + 1); }
};
// Degrees are cut to whole numbers; below 0, and where there is no number, the value is 0.
template <class P, class T> JC_NOINLINE void polynomial(i64 n, const T *x, const T *degree, T *out) {
  parallel(n, 64, team_for(n * 256), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) {
      T at = x[i], last = __builtin_trunc(degree[i]), before = 1, now = P::first(at);
      if (!(last > 0 && last < __builtin_inf())) {
        out[i] = last == 0;
        continue;
      }
      for (T k = 1; k < last; k++) {
        T next = P::step(k, at) * now - P::less(k) * before;
        before = now;
        now = next;
      }
      out[i] = now;
    }
  });
}
}  // namespace jc
