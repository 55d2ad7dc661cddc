// Library steps: matrix products of any batch layout, and copies of strided tensors to contiguous memory.
//
// dot calls the kernels of jitcap_product.h from within one team: per product of a batch, or per block
// of a large one.
#pragma once
#include "jitcap_product.h"
#include "jitcap_tile.h"

namespace jc {
// copy_dense(out, in, rank, dims): dims holds the sizes, then in's strides; out is contiguous.
template <class T> JC_NOINLINE void copy_rows(T *out, const T *in, i64 rank, const i64 *size, const i64 *step) {
  if (rank == 0) {
    *out = *in;
    return;
  }
  if (rank == 1) {
    for (i64 i = 0; i < *size; i++) out[i] = in[i * *step];
    return;
  }
  i64 inner = 1;
  for (i64 d = 1; d < rank; d++) inner *= size[d];
  for (i64 i = 0; i < *size; i++) copy_rows(out + i * inner, in + i * *step, rank - 1, size + 1, step + 1);
}
template <class T> JC_NOINLINE void copy_dense(T *out, const T *in, i64 rank, const i64 *dims) {
  if (rank == 0) {
    *out = *in;
    return;
  }
  i64 inner = 1;
  for (i64 d = 1; d < rank; d++) inner *= dims[d];
  parallel(dims[0], 1, team_for(2 * dims[0] * inner * (i64)sizeof(T)), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) copy_rows(out + i * inner, in + i * dims[rank], rank - 1, dims + 1, dims + rank + 1);
  });
}

template <class T> struct Matrix {  // element (i, j) at [i * ld + j], or [j * ld + i] if transposed
  const T *at;
  i64 ld;
  bool transposed;
};
// Batches: `dims` holds for each batch dimension its size and the strides of both operands.
JC_INLINE i64 batch_count(i64 rank, const i64 *dims) {
  i64 count = 1;
  for (i64 d = 0; d < rank; d++) count *= dims[3 * d];
  return count;
}
template <class T> JC_INLINE void batch_offset(i64 rank, const i64 *dims, i64 i, const T **a, const T **b) {
  for (i64 d = rank - 1; d >= 0; i /= dims[3 * d], d--) {
    *a += i % dims[3 * d] * dims[3 * d + 1];
    *b += i % dims[3 * d] * dims[3 * d + 2];
  }
}
// dot: out[batch..., m, n] = a[batch..., m, k] b[batch..., k, n]; out contiguous.
template <class T> JC_NOINLINE void dot(i64 m, i64 n, i64 k, Matrix<T> a, Matrix<T> b, T *out, i64 rank, const i64 *dims) {
  i64 count = batch_count(rank, dims);
  auto one = [=](i64 i, auto product) {
    const T *x = a.at, *y = b.at;
    batch_offset(rank, dims, i, &x, &y);
    product(a.transposed, b.transposed, m, n, k, T(1), x, a.ld, y, b.ld, T(0), out + i * m * n, n);
  };
  if (count < threads()) {
    for (i64 i = 0; i < count; i++) one(i, gemm<T>);
    return;
  }
  parallel(count, 1, team_for_product(count * m, n, k), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) one(i, serial_gemm<T>);
  });
}
}  // namespace jc
