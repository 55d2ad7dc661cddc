// Library steps: matrix products of any batch layout, and copies of strided tensors to contiguous memory.
//
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

// Batches: `dims` holds for each batch dimension its size and the strides of both operands.
JC_INLINE i64 batch_count(i64 rank, const i64 *dims) {
  i64 count = 1;
  for (i64 d = 0; d < rank; d++) count *= dims[3 * d];
  return count;
}
template <class T> JC_INLINE void batch_offset(i64 rank, const i64 *dims, i64 i, const T **a, const T **b) {
  for (i64 d = rank - 1; d >= 0; d--) {
    i64 rest = d ? i / dims[3 * d] : 0, at = i - rest * dims[3 * d];  // a division costs as much as a tiny product
    *a += at * dims[3 * d + 1];
    *b += at * dims[3 * d + 2];
    i = rest;
  }
}
// dot: out[batch..., m, n] = a[batch..., m, k] b[batch..., k, n]; out contiguous; of f32 for 16 bits.
template <class S, class T> JC_NOINLINE void dot(i64 m, i64 n, i64 k, JcView<S> a, JcView<S> b, T *out, i64 rank, const i64 *dims) {
  i64 count = batch_count(rank, dims);
  bool alone = count < threads();  // by the team, one after the other; else a member has some of them
  parallel(count, 1, alone ? 1 : team_for_product(count * m, n, k), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) {
      auto x = a, y = b;
      batch_offset(rank, dims, i, &x.at, &y.at);
      product(m, n, k, x, y, out + i * m * n, n);
    }
  });
}
}  // namespace jc
