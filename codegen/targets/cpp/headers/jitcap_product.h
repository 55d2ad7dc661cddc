// Matrix products over OpenBLAS, the small-product kernel of jitcap_gemm.h, or a plain loop.
//
// C[m,n] = alpha op(A)[m,k] op(B)[k,n] + beta C, row major; `ta` and `tb` say that a matrix is stored
// transposed. The kernel is chosen by the whole product, never by a member's part of it, so that the
// result does not depend on the number of threads.
#pragma once
#include "jitcap_rt.h"

namespace jc {
// runtime/cpu.py looks for Uses<T>::product in a loaded object, and provides the small kernel of T.
template <class T> struct Uses { static int product; };
template <class T> __attribute__((visibility("default"), used)) int Uses<T>::product = 1;
template <class T> struct Blas;
template <> struct Blas<f32> {
  static JcSgemm get() { return jc_api->sgemm; }
  static JcSmallGemm<f32> small() { return jc_api->small_sgemm; }
};
template <> struct Blas<f64> {
  static JcDgemm get() { return jc_api->dgemm; }
  static JcSmallGemm<f64> small() { return jc_api->small_dgemm; }
};
template <class T> struct Product {  // one of the kernels, called by one thread
  bool small;
  JC_INLINE void operator()(bool ta, bool tb, i64 m, i64 n, i64 k, T alpha, const T *a, i64 lda, const T *b, i64 ldb, T beta, T *c, i64 ldc) const;
};
template <class T> JC_NOINLINE void plain_gemm(bool ta, bool tb, i64 m, i64 n, i64 k, T alpha, const T *a, i64 lda, const T *b, i64 ldb, T beta, T *c, i64 ldc) {
  constexpr int N = JC_BYTES / sizeof(T), J = 256;  // one strip of C stays in cache over all of k
  for (i64 i = 0; i < m; i++)
    for (i64 j0 = 0; j0 < n; j0 += J) {
      T acc[J] = {};
      i64 w = n - j0 < J ? n - j0 : J;
      for (i64 p = 0; p < k; p++) {
        T x = ta ? a[p * lda + i] : a[i * lda + p];
        const T *row = b + (tb ? j0 * ldb + p : p * ldb + j0);
        i64 j = 0;
        if (!tb)
          for (; j + N <= w; j += N) store(acc + j, load<N>(acc + j) + splat<T, N>(x) * load<N>(row + j));
        for (; j < w; j++) acc[j] += x * row[tb ? j * ldb : j];
      }
      for (i64 j = 0; j < w; j++) {
        T *out = c + i * ldc + j0 + j;
        *out = alpha * acc[j] + (beta == 0 ? T(0) : beta * *out);
      }
    }
}
template <class T> JC_INLINE void Product<T>::operator()(bool ta, bool tb, i64 m, i64 n, i64 k, T alpha, const T *a, i64 lda, const T *b, i64 ldb, T beta, T *c, i64 ldc) const {
  if (small) Blas<T>::small()(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  else if (auto f = Blas<T>::get()) f(101, ta ? 112 : 111, tb ? 112 : 111, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  else plain_gemm<T>(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
// Up to about 290^3 our kernel beats OpenBLAS by 5 to 50 %, except for thin results and for a
// transposed A whose columns lie pages apart.
template <class T> JC_INLINE Product<T> product_for(bool ta, i64 m, i64 n, i64 k, i64 lda) {
  (void)Uses<T>::product;
  bool fits = m >= 24 && n >= 32 && (f64)m * n * k <= 25e6 && !(ta && lda * sizeof(T) >= 4096);
  return {Blas<T>::small() && fits};
}
template <class T> JC_NOINLINE void serial_gemm(bool ta, bool tb, i64 m, i64 n, i64 k, T alpha, const T *a, i64 lda, const T *b, i64 ldb, T beta, T *c, i64 ldc) {
  product_for<T>(ta, m, n, k, lda)(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
// gemm: split over the team along the longer side of C. Every call packs its operands anew:
// 8 pieces of a 2048-row product cost 10 % of BLAS's speed, 4 cost 5 %.
template <class T> JC_NOINLINE void gemm(bool ta, bool tb, i64 m, i64 n, i64 k, T alpha, const T *a, i64 lda, const T *b, i64 ldb, T beta, T *c, i64 ldc) {
  auto product = product_for<T>(ta, m, n, k, lda);
  bool rows = m >= n;
  i64 grain = !product.small ? 16 : rows ? 6 : 64;
  parallel(rows ? m : n, grain, team_for_product(m, n, k), [=](i64 lo, i64 hi) {
    if (rows) product(ta, tb, hi - lo, n, k, alpha, a + (ta ? lo : lo * lda), lda, b, ldb, beta, c + lo * ldc, ldc);
    else product(ta, tb, m, hi - lo, k, alpha, a, lda, b + (tb ? lo * ldb : lo), ldb, beta, c + lo, ldc);
  }, product.small ? 1 : 2);
}
// batched: `batch` products whose operands lie `sa`, `sb`, `sc` elements apart.
template <class T> JC_NOINLINE void batched_gemm(i64 batch, bool ta, bool tb, i64 m, i64 n, i64 k, T alpha, const T *a, i64 lda, i64 sa, const T *b, i64 ldb, i64 sb, T beta, T *c, i64 ldc, i64 sc) {
  if (batch < threads()) {
    for (i64 i = 0; i < batch; i++) gemm<T>(ta, tb, m, n, k, alpha, a + i * sa, lda, b + i * sb, ldb, beta, c + i * sc, ldc);
    return;
  }
  parallel(batch, 1, team_for_product(batch * m, n, k), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) serial_gemm<T>(ta, tb, m, n, k, alpha, a + i * sa, lda, b + i * sb, ldb, beta, c + i * sc, ldc);
  });
}
}  // namespace jc
