// Library steps: discrete Fourier transforms along one dimension of a contiguous (outer, n, inner) tensor.
//
// Lines are gathered into f64 buffers, so that the transform adds less than the rounding of the input.
// Stockham's passes by the factors of n put everything in order on their way (Van Loan, Computational
// Frameworks for the FFT, 1.7); a length with a large prime is a convolution of a power of two
// (Bluestein's chirp). A backward transform is the forward one with the parts exchanged.
#pragma once
#include "jitcap_dot.h"

namespace jc {
struct Fft {  // n = the product of its factors; chirp: the length of the convolution, or 0
  i64 n, chirp;
  const i64 *factors;  // of `chirp` if there is one; 0 ends them
};
JC_INLINE c128 add(c128 a, c128 b) { return {a.re + b.re, a.im + b.im}; }
JC_INLINE c128 sub(c128 a, c128 b) { return {a.re - b.re, a.im - b.im}; }
JC_INLINE c128 mul(c128 a, c128 b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
JC_INLINE c128 turned(c128 a) { return {a.im, -a.re}; }  // times -i

// out[k] = exp(-2 pi i k / n). The angle is reduced in integers: at most pi/4 is left.
JC_NOINLINE inline void fft_roots(c128 *out, i64 n) {
  for (i64 k = 0; k < n; k++) {
    i64 quarter = (8 * k + n) / (2 * n);
    f64 angle = 0x1.921fb54442d18p+0 * (f64)(4 * k - quarter * n) / (f64)n, z = angle * angle;
    f64 c = cos_poly(angle, z), s = sin_poly(angle, z);
    c128 root = {c, -s};
    for (i64 q = 0; q < (quarter & 3); q++) root = turned(root);
    out[k] = root;
  }
}
// One pass by the factor r: y[q + s (r p + v)] = w^(p v s) sum_u x[q + s (p + m u)] w_r^(u v).
template <int R> JC_INLINE void fft_butterfly(const c128 *t, c128 *y) {
  if constexpr (R == 2) {
    y[0] = add(t[0], t[1]), y[1] = sub(t[0], t[1]);
  } else {
    c128 a = add(t[0], t[2]), b = sub(t[0], t[2]), c = add(t[1], t[3]), d = turned(sub(t[1], t[3]));
    y[0] = add(a, c), y[1] = add(b, d), y[2] = sub(a, c), y[3] = sub(b, d);
  }
}
template <int R> JC_NOINLINE void fft_pass(const c128 *x, c128 *y, i64 m, i64 s, const c128 *w) {
  for (i64 p = 0; p < m; p++)
    for (i64 q = 0; q < s; q++) {
      c128 t[R], z[R];
      for (int u = 0; u < R; u++) t[u] = x[q + s * (p + m * u)];
      fft_butterfly<R>(t, z);
      for (int v = 0; v < R; v++) y[q + s * (R * p + v)] = v ? mul(z[v], w[p * v * s]) : z[v];
    }
}
JC_NOINLINE inline void fft_pass_any(i64 r, const c128 *x, c128 *y, i64 m, i64 s, i64 n, const c128 *w) {
  i64 step = n / r;
  for (i64 p = 0; p < m; p++)
    for (i64 q = 0; q < s; q++)
      for (i64 v = 0; v < r; v++) {
        c128 sum = x[q + s * p];
        for (i64 u = 1, at = v; u < r; u++, at = at + v < r ? at + v : at + v - r)
          sum = add(sum, mul(x[q + s * (p + m * u)], w[at * step]));
        y[q + s * (r * p + v)] = mul(sum, w[p * v * s]);
      }
}
// The transform of a by means of b; returns where the result is. w: the n roots.
JC_NOINLINE inline c128 *fft_passes(c128 *a, c128 *b, i64 n, const i64 *factors, const c128 *w) {
  i64 s = 1;
  for (; *factors; s *= *factors++) {
    i64 r = *factors, m = n / (s * r);
    if (r == 4) fft_pass<4>(a, b, m, s, w);
    else if (r == 2) fft_pass<2>(a, b, m, s, w);
    else fft_pass_any(r, a, b, m, s, n, w);
    c128 *t = a;
    a = b;
    b = t;
  }
  return a;
}
// What all lines share, at `room`: the roots; for a chirp its values and the transform of their conjugates.
struct FftTables { c128 *roots, *chirp, *filter; };
JC_NOINLINE inline FftTables fft_tables(const Fft &f, c128 *room) {
  i64 n = f.n, m = f.chirp;
  if (!m) {
    fft_roots(room, n);
    return {room, nullptr, nullptr};
  }
  FftTables t = {room, room + m, room + m + n};
  c128 *twice = t.filter, *work = t.filter + m;  // 2 n <= m + 1 roots of exp(-pi i k / n)
  fft_roots(twice, 2 * n);
  for (i64 k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) t.chirp[k] = twice[square];
  fft_roots(t.roots, m);
  for (i64 k = 0; k < m; k++) work[k] = {0, 0};
  for (i64 k = 0; k < n; k++) work[k] = work[k ? m - k : 0] = {t.chirp[k].re, -t.chirp[k].im};
  c128 *found = fft_passes(work, work + m, m, f.factors, t.roots);
  for (i64 k = 0; k < m; k++) t.filter[k] = {found[k].re / (f64)m, found[k].im / (f64)m};
  return t;
}
// The transform of the n values at `a`; `a` and `b` have room for as many as are convolved.
JC_NOINLINE inline c128 *fft_line(const Fft &f, const FftTables &t, c128 *a, c128 *b) {
  i64 n = f.n, m = f.chirp;
  if (!m) return fft_passes(a, b, n, f.factors, t.roots);
  for (i64 k = 0; k < n; k++) a[k] = mul(a[k], t.chirp[k]);
  for (i64 k = n; k < m; k++) a[k] = {0, 0};
  c128 *x = fft_passes(a, b, m, f.factors, t.roots), *other = x == a ? b : a;
  for (i64 k = 0; k < m; k++) {
    c128 y = mul(x[k], t.filter[k]);
    x[k] = {y.im, y.re};  // backward
  }
  c128 *y = fft_passes(x, other, m, f.factors, t.roots);
  for (i64 k = 0; k < n; k++) y[k] = mul({y[k].im, y[k].re}, t.chirp[k]);
  return y;
}
// How elements are read and written. A real output keeps the real part.
JC_INLINE c128 fft_value(c64 x) { return {x.re, x.im}; }
JC_INLINE c128 fft_value(c128 x) { return x; }
JC_INLINE c128 fft_value(f32 x) { return {x, 0}; }
JC_INLINE c128 fft_value(f64 x) { return {x, 0}; }
JC_INLINE void fft_store(c64 *at, c128 x) { *at = {(f32)x.re, (f32)x.im}; }
JC_INLINE void fft_store(c128 *at, c128 x) { *at = x; }
JC_INLINE void fft_store(f32 *at, c128 x) { *at = (f32)x.re; }
JC_INLINE void fft_store(f64 *at, c128 x) { *at = x.re; }

// Lines of `given` elements of x become lines of `kept` of out. `half`: what is not given are the
// conjugates of what is. out may be x where given == kept.
template <class T, class R>
JC_NOINLINE void fft(const Fft &f, i64 outer, i64 inner, i64 given, i64 kept, bool backward, bool half, f64 scale, const T *x, R *out, char *room) {
  i64 n = f.n, length = f.chirp ? f.chirp : n;
  c128 *shared = (c128 *)room, *own = shared + (f.chirp ? 4 * length + n : n);
  FftTables t = fft_tables(f, shared);
  parallel(outer * inner, 1, team_for(outer * inner * n * 64), [=, &f](i64 lo, i64 hi) {
    c128 *a = own + member() * 2 * length, *b = a + length;
    for (i64 line = lo; line < hi; line++) {
      i64 at = line / inner * given * inner + line % inner, to = line / inner * kept * inner + line % inner;
      for (i64 k = 0; k < n; k++) {
        c128 v = {0, 0};
        if (k < given && (!half || 2 * k <= n)) v = fft_value(x[at + k * inner]);
        else if (half && n - k < given) v = fft_value(x[at + (n - k) * inner]), v.im = -v.im;
        if (half && (k == 0 || 2 * k == n)) v.im = 0;
        a[k] = backward ? c128{v.im, v.re} : v;
      }
      const c128 *y = fft_line(f, t, a, b);
      for (i64 k = 0; k < kept; k++) {
        c128 v = backward ? c128{y[k].im, y[k].re} : y[k];
        fft_store(out + to + k * inner, {v.re * scale, v.im * scale});
      }
    }
  });
}
}  // namespace jc
