// Library steps: linear systems, inverses, determinants and Cholesky factors by LAPACK.
//
// LAPACK's matrices are column-major: a row-major one is its transpose. Matrices of a batch are shared
// among the members of the team; one that cannot be done is recorded as a failed check, or (lenient)
// gives NaN.
#pragma once
#include "jitcap_dot.h"

namespace jc {
template <class T> struct Lapack;
template <> struct Lapack<f32> {
  static auto gesv() { return jc_api->sgesv; }
  static auto getrf() { return jc_api->sgetrf; }
  static auto potrf() { return jc_api->spotrf; }
  static auto potrs() { return jc_api->spotrs; }
};
template <> struct Lapack<f64> {
  static auto gesv() { return jc_api->dgesv; }
  static auto getrf() { return jc_api->dgetrf; }
  static auto potrf() { return jc_api->dpotrf; }
  static auto potrs() { return jc_api->dpotrs; }
};
// What to do with matrices that are singular or not positive definite, and where to say it.
struct Refused {
  void *arena;
  i64 site;
  bool lenient;
};
template <class T> JC_NOINLINE void refused(const Refused &r, T *out, i64 count) {
  if (!r.lenient) fail(r.arena, JC_INDEX, r.site, 0, 0);
  for (i64 i = 0; i < count; i++) out[i] = __builtin_nan("");
}
template <class T> JC_INLINE void transpose_into(T *out, const T *x, i64 rows, i64 columns) {
  for (i64 i = 0; i < rows; i++)
    for (i64 j = 0; j < columns; j++) out[j * rows + i] = x[i * columns + j];
}
// out (batch, n, k) = a (batch, n, n)^-1 b; without b the unit matrix.
template <class T> JC_NOINLINE void solve(i64 batch, i64 n, i64 k, const T *a, const T *b, T *out, const Refused &r, char *room) {
  i64 own = (n * n + n * k) * (i64)sizeof(T) + (n * 4 + 63) / 64 * 64;
  parallel(batch, 1, team_for_product(batch * n, n, n + k), [=, &r](i64 lo, i64 hi) {
    T *left = (T *)(room + member() * own), *right = left + n * n;
    int *pivots = (int *)(right + n * k), size = (int)n, columns = (int)k;
    for (i64 i = lo; i < hi; i++) {
      transpose_into(left, a + i * n * n, n, n);
      if (b) transpose_into(right, b + i * n * k, n, k);
      else
        for (i64 j = 0; j < n * n; j++) right[j] = j % (n + 1) == 0;
      int info = 1;
      if (Lapack<T>::gesv()) Lapack<T>::gesv()(&size, &columns, left, &size, pivots, right, &size, &info);
      if (info) refused(r, out + i * n * k, n * k);
      else transpose_into(out + i * n * k, right, k, n);
    }
  });
}
// Sign and logarithm of the size of each determinant, or the determinants themselves.
template <class T> JC_NOINLINE void determinant(i64 batch, i64 n, const T *a, T *sign, T *size, T *whole, const Refused &r, char *room) {
  i64 own = n * n * (i64)sizeof(T) + (n * 4 + 63) / 64 * 64;
  parallel(batch, 1, team_for_product(batch * n, n, n), [=, &r](i64 lo, i64 hi) {
    T *left = (T *)(room + member() * own);
    int *pivots = (int *)(left + n * n), rows = (int)n, info = 0;
    for (i64 i = lo; i < hi; i++) {
      for (i64 j = 0; j < n * n; j++) left[j] = a[i * n * n + j];
      if (!Lapack<T>::getrf()) refused(r, left, 0);
      else if (n) Lapack<T>::getrf()(&rows, &rows, left, &rows, pivots, &info);
      T product = 1, factor = 1, logarithm = 0;
      for (i64 j = 0; j < n; j++) {
        T each = left[j * (n + 1)];
        if (pivots[j] != j + 1) factor = -factor;
        product *= each;
        if (each < 0) factor = -factor, each = -each;
        logarithm += log(each);
      }
      if (info > 0) factor = 0, logarithm = -__builtin_inf(), product = 0;
      for (i64 j = 0; j < n && whole; j++) product = pivots[j] != j + 1 ? -product : product;
      if (whole) whole[i] = product;
      else sign[i] = factor, size[i] = logarithm;
    }
  });
}
// One step of elimination by row k of a row-major (m, n) matrix: the factors stay below the diagonal.
template <class T> JC_INLINE void eliminate(T *work, i64 m, i64 n, i64 k) {
  T pivot = work[k * n + k];
  if (pivot == 0) return;
  for (i64 i = k + 1; i < m; i++) {
    T factor = work[i * n + k] /= pivot;
    for (i64 j = k + 1; j < n; j++) work[i * n + j] -= factor * work[k * n + j];
  }
}
// The order of the rows, and (from 1) which row each step exchanges for its own; NaN is the largest.
template <class T> JC_NOINLINE void pivots(i64 batch, i64 m, i64 n, const T *x, i64 *order, i32 *exchanged, char *room) {
  i64 steps = m < n ? m : n, own = m * n * (i64)sizeof(T) + (m * 4 + 63) / 64 * 64;
  parallel(batch, 1, team_for_product(batch * m, n, steps), [=](i64 lo, i64 hi) {
    T *work = (T *)(room + member() * own);
    for (i64 i = lo; i < hi; i++) {
      i64 *rows = order + i * m;
      for (i64 j = 0; j < m * n; j++) work[j] = x[i * m * n + j];
      for (i64 j = 0; j < m; j++) rows[j] = j;
      for (i64 k = 0; k < steps; k++) {
        i64 best = k;
        for (i64 j = k + 1; j < m; j++) {
          T most = abs(work[best * n + k]), each = abs(work[j * n + k]);
          if (most == most && !(each <= most)) best = j;
        }
        exchanged[i * steps + k] = (i32)(best + 1);
        for (i64 j = 0; j < n && best != k; j++) {
          T t = work[k * n + j];
          work[k * n + j] = work[best * n + j];
          work[best * n + j] = t;
        }
        i64 row = rows[k];
        rows[k] = rows[best];
        rows[best] = row;
        eliminate(work, m, n, k);
      }
    }
  });
}
// L below the diagonal and U on and above it, of square matrices whose rows are in order.
template <class T> JC_NOINLINE void plain_lu(i64 batch, i64 n, const T *x, T *out) {
  parallel(batch, 1, team_for_product(batch * n, n, n), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) {
      T *work = out + i * n * n;
      for (i64 j = 0; j < n * n; j++) work[j] = x[i * n * n + j];
      for (i64 k = 0; k < n; k++) eliminate(work, n, n, k);
    }
  });
}
template <class T> JC_NOINLINE void cholesky(i64 batch, i64 n, const T *a, T *out, const Refused &r) {
  parallel(batch, 1, team_for_product(batch * n, n, n), [=, &r](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) {
      T *to = out + i * n * n;
      for (i64 j = 0; j < n; j++)  // the lower triangle, which is LAPACK's upper one
        for (i64 k = 0; k < n; k++) to[j * n + k] = k <= j ? a[i * n * n + j * n + k] : T(0);
      int size = (int)n, info = 1;
      char upper = 'U';
      if (Lapack<T>::potrf()) Lapack<T>::potrf()(&upper, &size, to, &size, &info, 1);
      if (info) refused(r, to, n * n);
    }
  });
}
// out (batch, n, k) from factors (batch, n, n) and b.
template <class T> JC_NOINLINE void cholesky_solve(i64 batch, i64 n, i64 k, bool upper, const T *factor, const T *b, T *out, const Refused &r, char *room) {
  i64 own = n * k * (i64)sizeof(T);
  parallel(batch, 1, team_for_product(batch * n, n, k), [=, &r](i64 lo, i64 hi) {
    T *right = (T *)(room + member() * own);
    int size = (int)n, columns = (int)k;
    char half = upper ? 'L' : 'U';
    for (i64 i = lo; i < hi; i++) {
      const T *f = factor + i * n * n;
      transpose_into(right, b + i * n * k, n, k);
      int info = 1;
      bool singular = !Lapack<T>::potrs();
      for (i64 j = 0; j < n; j++) singular |= f[j * (n + 1)] == 0;
      if (!singular) Lapack<T>::potrs()(&half, &size, &columns, f, &size, right, &size, &info, 1);
      if (info) refused(r, out + i * n * k, n * k);
      else transpose_into(out + i * n * k, right, k, n);
    }
  });
}
}  // namespace jc
