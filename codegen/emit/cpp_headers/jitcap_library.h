// Routines behind library steps: products with irregular batches, convolution, pooling, scans, sorts, scatters.
#pragma once
#include "jitcap_kernel.h"

namespace jc {
// `batch` products whose operands lie at at_a(i) and at_b(i); results one after the other.
template <class T, class FA, class FB>
JC_NOINLINE void strided_gemm(i64 batch, bool ta, bool tb, i64 m, i64 n, i64 k, T alpha, const T *a, i64 lda, FA at_a, const T *b, i64 ldb, FB at_b, T *c, i64 ldc) {
  if (batch < threads()) {
    for (i64 i = 0; i < batch; i++) gemm<T>(ta, tb, m, n, k, alpha, a + at_a(i), lda, b + at_b(i), ldb, T(0), c + i * m * n, ldc);
    return;
  }
  parallel(batch, 1, (f64)batch * m * n * k < 4e5 ? 1 : threads(), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) serial_gemm<T>(ta, tb, m, n, k, alpha, a + at_a(i), lda, b + at_b(i), ldb, T(0), c + i * m * n, ldc);
  });
}
}  // namespace jc
