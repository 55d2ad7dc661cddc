// Matrix products: the brick of jitcap_brick.h, compiled once per machine, else OpenBLAS, else a loop.
//
// C[m,n] = A[m,k] B[k,n], or that added to C, in the team; C's rows lie ldc apart, A and B have any strides, and may be of
// 16 bits, where C is of f32. Which kernel
// computes it does not depend on the number of threads, and neither do its bits.
#pragma once
#include "jitcap_rt.h"

namespace jc {
// runtime/cpu.py looks for Uses<S>::product in a loaded object, and provides the brick of S.
template <class S> struct Uses { static int product; };
template <class S> __attribute__((visibility("default"), used)) int Uses<S>::product = 1;
template <class S> struct Products;  // of operands of S
template <> struct Products<f32> {
  static JcProduct<f32> brick() { return jc_api->product_f32; }
  static JcPack<f32> pack() { return jc_api->pack_f32; }
};
template <> struct Products<f64> {
  static JcProduct<f64> brick() { return jc_api->product_f64; }
  static JcPack<f64> pack() { return jc_api->pack_f64; }
};
template <> struct Products<bf16> {
  static JcProduct<bf16, f32> brick() { return jc_api->product_bf16; }
  static JcPack<bf16> pack() { return jc_api->pack_bf16; }
};
template <> struct Products<f16> {
  static JcProduct<f16, f32> brick() { return jc_api->product_f16; }
  static JcPack<f16> pack() { return jc_api->pack_f16; }
};
JC_INLINE JcGemm<f32> blas_of(f32) { return jc_api->sgemm; }
JC_INLINE JcGemm<f64> blas_of(f64) { return jc_api->dgemm; }
// A matrix as BLAS names it: its lines, each of neighbours, lie `ld` apart; `lines` is 0 if it has none.
struct Lines { i64 lines, ld; };
JC_INLINE Lines lines_of(i64 rows, i64 cols, i64 row, i64 col) {
  i64 ld = rows > 1 ? row : cols;
  return {(col == 1 || cols == 1) && ld >= cols && ld > 0 ? rows : 0, ld};
}
constexpr i64 FEW = 16 * 16 * 16;  // multiplications that are not worth packing
// What OpenBLAS multiplies without packing, in two chunks of up to 100^3.
JC_INLINE bool is_small(i64 m, i64 n, i64 k) { return (f64)m * n * k <= 2e6 && m * n * k > FEW; }
// Tiny products whose right operand lies along k: the brick turns it a vector of columns at a time.
JC_INLINE bool is_turned(i64 m, i64 n, i64 k, i64 row) {
  i64 all = m * n * k;
  return row == 1 && all <= 8 * FEW && m >= 4 && n >= 8 && k >= (all <= FEW ? 8 : 16) && k <= 512;
}
// In chunks, which depend on the shape alone: by their size it chooses a kernel.
template <class T> JC_NOINLINE bool blas_product(i64 m, i64 n, i64 k, JcView<T> a, JcView<T> b, T *c, i64 ldc, bool add = false) {
  auto gemm = blas_of(T());
  Lines x = lines_of(m, k, a.row, a.col), y = lines_of(k, n, b.row, b.col);
  bool ta = !x.lines, tb = !y.lines;
  if (ta) x = lines_of(k, m, a.col, a.row);
  if (tb) y = lines_of(n, k, b.col, b.row);
  if (!gemm || !x.lines || !y.lines) return false;
  bool rows = m >= n;
  i64 length = rows ? m : n, chunks = is_small(m, n, k) ? 2 * (i64(1e-6 * m * n * k) + 1) : 8, each = (length / chunks + 15) / 16 * 16 + 16 * (length < 16);
  parallel(length, each, team_for_product(m, n, k), [=](i64 lo, i64 hi) {
    for (i64 at = lo; at < hi; at += each) {
      i64 size = hi - at < each ? hi - at : each, i = rows ? at : 0, j = rows ? 0 : at;
      gemm(101, ta ? 112 : 111, tb ? 112 : 111, rows ? size : m, rows ? n : size, k, 1, a.at + i * a.row, x.ld, b.at + j * b.col, y.ld, add, c + i * ldc + j, ldc);
    }
  });
  return true;
}
template <class S, class T> JC_NOINLINE void plain_product(i64 m, i64 n, i64 k, JcView<S> a, JcView<S> b, T *c, i64 ldc, bool add) {
  parallel(m, 1, team_for_product(m, n, k), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) {
      for (i64 j = 0; j < n && !add; j++) c[i * ldc + j] = 0;
      for (i64 p = 0; p < k; p++) {
        T x = load<1>(a.at + i * a.row + p * a.col);
        for (i64 j = 0; j < n; j++) c[i * ldc + j] += x * load<1>(b.at + p * b.row + j * b.col);
      }
    }
  });
}
// Where OpenBLAS is ahead: where vectors are short and it has kernels written by hand; and, with long
// ones, at small products.
template <class T> JC_INLINE bool blas_first(i64 m, i64 n, i64 k, JcView<T> a, JcView<T> b, bool add = false) {
  if (JC_BYTES < 32) return true;
  if (!JC_AVX512 || !is_small(m, n, k) || (!add && k < 32 && is_turned(m, n, k, b.row))) return false;
  return a.col != 1 || b.row != 1 || n < 32;
}
template <class S, class T> JC_NOINLINE void product(i64 m, i64 n, i64 k, JcView<S> a, JcView<S> b, T *c, i64 ldc, bool add = false) {
  (void)Uses<S>::product;
  auto brick = Products<S>::brick();
  if constexpr (same<S, T>) {
    if (k && blas_first(m, n, k, a, b, add) && blas_product(m, n, k, a, b, c, ldc, add)) return;
  }
  if (k && brick && brick(m, n, k, a, b, c, ldc, add, nullptr)) return;
  if constexpr (same<S, T>) {
    if (k && blas_product(m, n, k, a, b, c, ldc, add)) return;
  }
  plain_product(m, n, k, a, b, c, ldc, add);
}
// What `after` makes of a b. Where the brick makes no tiles, by parts: as many whole rows as fit.
constexpr i64 PART = 1 << 15;  // elements
template <class T> JC_INLINE T *part_memory() {
  alignas(64) static thread_local T at[PART];
  return at;
}
template <class S, class T> JC_NOINLINE void product_then(i64 m, i64 n, i64 k, JcView<S> a, JcView<S> b, JcAfter<T> after) {
  (void)Uses<S>::product;
  if (!m || !n) return;
  auto brick = Products<S>::brick();
  bool first = true;
  if constexpr (same<S, T>) first = !blas_first(m, n, k, a, b);
  if (first && k && brick && brick(m, n, k, a, b, nullptr, 0, false, &after)) return;
  i64 cols = n < PART ? n : PART, rows = PART / cols;
  T *c = part_memory<T>();
  for (i64 i = 0; i < m; i += rows)
    for (i64 j = 0; j < n; j += cols) {
      i64 height = m - i < rows ? m - i : rows, width = n - j < cols ? n - j : cols;
      product(height, width, k, JcView<S>{a.at + i * a.row, a.row, a.col}, JcView<S>{b.at + j * b.col, b.row, b.col}, c, width);
      parallel(height, 1, team_for(height * width * after.bytes), [=](i64 lo, i64 hi) {
        after.run(after.env, after.row + i + lo, after.row + i + hi, j, j + width, c + lo * width, width);
      });
    }
}
}  // namespace jc
