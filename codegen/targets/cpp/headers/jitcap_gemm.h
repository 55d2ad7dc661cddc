// Small matrix products: a register-tiled SIMD kernel, without the set-up of a BLAS call.
//
// OpenBLAS needs 0.5 us before it computes and packs both operands for a cache hierarchy that a small
// product never fills: 32x384x128 runs at 85 GFLOP/s there and at 130 here (one core, AVX-512).
// C is cut into tiles of 6 rows by 4 vectors that live in registers; B is copied (and turned, if it
// is transposed) into a panel of K x 4 vectors that stays in the first-level cache; A is read where
// it lies. The sum over k runs in order, one fma per element, whatever the shape.
#pragma once
#include "jitcap_math.h"

namespace jc {
constexpr int GEMM_K = 128;  // depth of a panel: 32 KiB of f32 with AVX-512

// r[0..N) as the rows of an N x N matrix, transposed: log2(N) rounds of interleaving halves.
template <class V> JC_INLINE void gemm_interleave(V a, V b, V *lo, V *hi) {
  constexpr int N = lanes<V>;
  ints<V> low, high;
  JC_UNROLL
  for (int i = 0; i < N; i++) low[i] = i / 2 + (i % 2) * N, high[i] = N / 2 + i / 2 + (i % 2) * N;
  *lo = __builtin_shuffle(a, b, low);
  *hi = __builtin_shuffle(a, b, high);
}
template <class V> JC_INLINE void gemm_transpose(V *r) {
  constexpr int N = lanes<V>;
  JC_UNROLL
  for (int step = 1; step < N; step *= 2) {
    V t[N];
    JC_UNROLL
    for (int i = 0; i < N / 2; i++) gemm_interleave(r[i], r[i + N / 2], &t[2 * i], &t[2 * i + 1]);
    JC_UNROLL
    for (int i = 0; i < N; i++) r[i] = t[i];
  }
}
// panel[p * W + j] = op(B)[p, j] for p < k, j < w; columns from w to W are 0.
template <class T, int W> JC_NOINLINE void gemm_pack(bool tb, i64 w, i64 k, const T *b, i64 ldb, T *panel) {
  constexpr int N = JC_BYTES / sizeof(T);
  typedef vec<T, N> V;
  if (!tb) {
    for (i64 p = 0; p < k; p++)
      for (i64 j = 0; j < W; j += N) {
        int live = w - j >= N ? N : w > j ? int(w - j) : 0;
        store(panel + p * W + j, live == N ? load<N>(b + p * ldb + j) : load_n<N>(b + p * ldb + j, live));
      }
    return;
  }
  for (i64 j = 0; j < W; j += N)
    for (i64 p = 0; p < k; p += N) {
      int depth = k - p >= N ? N : int(k - p);
      V r[N];
      JC_UNROLL
      for (int i = 0; i < N; i++) r[i] = j + i < w ? load_n<N>(b + (j + i) * ldb + p, depth) : V{};
      gemm_transpose(r);
      for (int i = 0; i < depth; i++) store(panel + (p + i) * W + j, r[i]);
    }
}
template <class T> struct Scales { T alpha, beta; };
// c[0..M, 0..w) = alpha a panel + beta c. Element (i, p) of a is at a[i * row + p * col].
template <class T, int M, int V4, int W> JC_NOINLINE void gemm_tile(i64 w, i64 k, const T *a, i64 row, i64 col, const T *panel, Scales<T> s, T *c, i64 ldc) {
  constexpr int N = JC_BYTES / sizeof(T);
  typedef vec<T, N> V;
  V acc[M][V4] = {};
  for (i64 p = 0; p < k; p++) {
    V b[V4];
    JC_UNROLL
    for (int j = 0; j < V4; j++) b[j] = load<N>(panel + p * W + j * N);
    JC_UNROLL
    for (int i = 0; i < M; i++) {
      V x = splat<T, N>(a[i * row + p * col]);
      JC_UNROLL
      for (int j = 0; j < V4; j++) acc[i][j] = fma(x, b[j], acc[i][j]);
    }
  }
  JC_UNROLL
  for (int i = 0; i < M; i++)
    JC_UNROLL
    for (int j = 0; j < V4; j++) {
      T *out = c + i * ldc + j * N;
      int live = w - j * N >= N ? N : w > j * N ? int(w - j * N) : 0;
      V v = acc[i][j] * s.alpha;
      if (s.beta != 0) v = v + load_n<N>(out, live) * s.beta;
      if (live == N) store(out, v);
      else store_n(out, v, live);
    }
}
template <class T, int V4, int W> JC_INLINE void gemm_rows(i64 m, i64 w, i64 k, const T *a, i64 row, i64 col, const T *panel, Scales<T> s, T *c, i64 ldc) {
  i64 i = 0;
  for (; i + 6 <= m; i += 6) gemm_tile<T, 6, V4, W>(w, k, a + i * row, row, col, panel, s, c + i * ldc, ldc);
  for (; i + 2 <= m; i += 2) gemm_tile<T, 2, V4, W>(w, k, a + i * row, row, col, panel, s, c + i * ldc, ldc);
  for (; i < m; i++) gemm_tile<T, 1, V4, W>(w, k, a + i * row, row, col, panel, s, c + i * ldc, ldc);
}
template <class T> JC_NOINLINE void small_gemm(bool ta, bool tb, i64 m, i64 n, i64 k, T alpha, const T *a, i64 lda, const T *b, i64 ldb, T beta, T *c, i64 ldc) {
  constexpr int N = JC_BYTES / sizeof(T), V4 = JC_AVX512 ? 4 : 2, W = V4 * N;
  alignas(64) T panel[GEMM_K * W];
  i64 row = ta ? 1 : lda, col = ta ? lda : 1;
  for (i64 j = 0; j < n; j += W) {
    i64 w = n - j < W ? n - j : W;
    for (i64 p = 0; p == 0 || p < k; p += GEMM_K) {
      i64 depth = k - p < GEMM_K ? k - p : GEMM_K;
      gemm_pack<T, W>(tb, w, depth, b + (tb ? j * ldb + p : p * ldb + j), ldb, panel);
      Scales<T> s = {alpha, p == 0 ? beta : T(1)};
      if (w > W / 2) gemm_rows<T, V4, W>(m, w, depth, a + p * col, row, col, panel, s, c + j, ldc);
      else gemm_rows<T, V4 / 2, W>(m, w, depth, a + p * col, row, col, panel, s, c + j, ldc);
    }
  }
}
}  // namespace jc
