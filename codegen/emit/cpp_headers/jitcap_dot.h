// Library steps: matrix products of any batch layout, and copies of strided tensors to contiguous memory.
//
// dot chooses among a SIMD kernel of its own for small products (a BLAS call costs 0.3-1 us before
// it computes anything), BLAS per batch element in one team, and BLAS over row blocks.
#pragma once
#include "jitcap_math.h"
#include "jitcap_rt.h"

namespace jc {
// share(n, team, body): body(i) for every i in [0, n), handed out one by one. For items of some
// microseconds and more: a member that the system holds up takes fewer of them.
template <class F> JC_INLINE void share(i64 n, int team, F body) {
  i64 next = 0;
  if (team > n) team = (int)n;
  auto work = [&next, n, body] {
    for (i64 i; (i = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < n;) body(i);
  };
  if (team <= 1) work();
  else {
#pragma omp parallel num_threads(team)
    work();
  }
}
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
// dot: out[batch..., m, n] = a[batch..., m, k] b[batch..., k, n]; out contiguous. `dims` holds for each
// batch dimension its size and the strides of a and b.
template <class T> JC_NOINLINE void dot(i64 m, i64 n, i64 k, Matrix<T> a, Matrix<T> b, T *out, i64 rank, const i64 *dims) {
  i64 count = 1;
  for (i64 d = 0; d < rank; d++) count *= dims[3 * d];
  auto one = [=](i64 i, auto product) {
    const T *x = a.at, *y = b.at;
    for (i64 d = rank - 1, rest = i; d >= 0; d--) {
      i64 at = rest % dims[3 * d];
      rest /= dims[3 * d];
      x += at * dims[3 * d + 1];
      y += at * dims[3 * d + 2];
    }
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
