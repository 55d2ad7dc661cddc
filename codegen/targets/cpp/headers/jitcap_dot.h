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
// What the brick reads of the matrices b[batch..., k, n] in all products with them; without a brick nothing
// is written, or read. Each has room for a multiple of LANES columns.
constexpr i64 LANES = 32;  // a whole number of panels, on every machine
template <class S, class T> JC_NOINLINE void pack_ahead(i64 k, i64 n, JcView<S> b, T *out, i64 rank, const i64 *dims) {
  (void)Uses<S>::product;
  auto pack = Products<S>::pack();
  if (!pack) return;
  i64 each = (n + LANES - 1) / LANES, count = batch_count(rank, dims) * each;
  parallel(count, 1, team_for(count * k * LANES * i64(sizeof(S) + sizeof(T))), [=](i64 lo, i64 hi) {
    for (i64 u = lo; u < hi; u++) {
      auto x = b, unused = b;
      batch_offset(rank, dims, u / each, &x.at, &unused.at);
      i64 first = u % each * LANES;
      pack(k, first, first + LANES < n ? first + LANES : n, x, out + u / each * each * LANES * k);
    }
  });
}
// dot_then: what `after` makes of a[batch..., m, k] b[batch..., k, n]; dot: out[batch..., m, n], contiguous, of
// f32 or rounded once for operands of 16 bits.
template <class F> JC_INLINE void each_product(i64 m, i64 n, i64 k, i64 rank, const i64 *dims, F product) {
  i64 count = batch_count(rank, dims);
  bool alone = count < threads();  // by the team, one after the other; else a member has some of them
  parallel(count, 1, alone ? 1 : team_for_product(count * m, n, k), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) product(i);
  });
}
template <class S> JC_NOINLINE void dot_then(i64 m, i64 n, i64 k, JcView<S> a, JcView<S> b, JcAfter<elem<vec<S, 2>>> after, i64 rank, const i64 *dims) {
  each_product(m, n, k, rank, dims, [=](i64 i) {
    auto x = a, y = b;
    auto then = after;
    batch_offset(rank, dims, i, &x.at, &y.at);
    then.row = i * m;
    product_then(m, n, k, x, y, then);
  });
}
template <class U> struct Rounded {  // of f32, to memory
  U *out;
  i64 n;
  static void run(const void *env, long i0, long i1, long j0, long j1, const f32 *tile, long ld) {
    auto own = *(const Rounded *)env;
    for (i64 i = i0; i < i1; i++, tile += ld) {
      i64 j = j0;
      for (; j + JC_W32 <= j1; j += JC_W32) store(own.out + i * own.n + j, load<JC_W32>(tile + j - j0));
      if (j < j1) store_n(own.out + i * own.n + j, load_n<JC_W32>(tile + j - j0, int(j1 - j)), int(j1 - j));
    }
  }
};
template <class S, class T> JC_NOINLINE void dot(i64 m, i64 n, i64 k, JcView<S> a, JcView<S> b, T *out, i64 rank, const i64 *dims) {
  if constexpr (sizeof(T) == 2) {
    Rounded<T> rounded = {out, n};
    dot_then(m, n, k, a, b, JcAfter<f32>{Rounded<T>::run, &rounded, 0, 6}, rank, dims);
  } else
    each_product(m, n, k, rank, dims, [=](i64 i) {
      auto x = a, y = b;
      batch_offset(rank, dims, i, &x.at, &y.at);
      product(m, n, k, x, y, out + i * m * n, n);
    });
}
}  // namespace jc
