// Under the library routines: work sharing, and what register tiles are made of.
#pragma once
#include "jitcap_math.h"
#include "jitcap_rt.h"

namespace jc {
template <class T> constexpr int native_lanes = JC_BYTES / sizeof(T);

// share(n, team, body): body(i) for every i in [0, n), handed out one by one. For items of some
// microseconds and more: a member that the system holds up takes fewer of them.
template <class F> JC_INLINE void share(i64 n, int team, F body) {
  parallel(n, 1, team, [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) body(i);
  }, n);
}
// mac: a * b + c, in one instruction where there is one.
template <class V> JC_INLINE V mac(V a, V b, V c) {
#if defined(__FMA__) || defined(__aarch64__)
  return fma(a, b, c);
#else
  return a * b + c;
#endif
}
template <class V> JC_INLINE V broadcast(const elem<V> *p) { return *p - V{}; }  // x - 0 is x, also for -0 and NaN

// transposed: P vectors of N lanes, read as a matrix (P, N), become (N, P) in the same registers: each
// round interleaves the first half of all elements with the second, a rotation of the index bits.
template <class V> JC_INLINE void interleave(V a, V b, V *lo, V *hi) {
  constexpr int N = lanes<V>;
  ints<V> first, second;
  JC_UNROLL
  for (int i = 0; i < N; i++) {
    first[i] = i / 2 + (i % 2) * N;
    second[i] = i / 2 + (i % 2) * N + N / 2;
  }
  *lo = __builtin_shuffle(a, b, first);
  *hi = __builtin_shuffle(a, b, second);
}
template <int P, class V> JC_INLINE void transpose(V *v) {
  JC_UNROLL
  for (int round = 1; round < P; round *= 2) {
    V u[P];
    JC_UNROLL
    for (int i = 0; i < P / 2; i++) interleave(v[i], v[i + P / 2], &u[2 * i], &u[2 * i + 1]);
    JC_UNROLL
    for (int i = 0; i < P; i++) v[i] = u[i];
  }
}
// turn: out[i][lane] = in[lane][i] for i < n and `lanes` (whole vectors) rows of `in` that lie `apart`
// elements apart; zeros beyond `rows`.
template <class T> JC_NOINLINE void turn(T *out, const T *in, i64 apart, i64 rows, i64 lanes, i64 count) {
  constexpr int N = native_lanes<T>;
  typedef vec<T, N> V;
  for (i64 first = 0; first < lanes; first += N)
    for (i64 i = 0; i < count; i += N) {
      V v[N];
      int n = count - i < N ? count - i : N;
      const T *p = in + first * apart + i;
      JC_UNROLL
      for (int k = 0; k < N; k++) v[k] = first + k < rows ? n == N ? load<N>(p + k * apart) : load_n<N>(p + k * apart, n) : V{};
      transpose<N>(v);
      T *o = out + i * lanes + first;
      if (n == N) {
        JC_UNROLL
        for (int k = 0; k < N; k++) store(o + k * lanes, v[k]);
      } else {
        T tile[N * N];
        __builtin_memcpy(tile, v, sizeof tile);
        for (int k = 0; k < n; k++) __builtin_memcpy(o + k * lanes, tile + k * N, N * sizeof(T));
      }
    }
}
}  // namespace jc
