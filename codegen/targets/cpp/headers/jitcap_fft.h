// Library steps: discrete Fourier transforms along one dimension of a contiguous (outer, n, inner) tensor.
//
// Lines are gathered into buffers of E, which is f32 or f64; lanes hold several lines.
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
template <class V> struct Cx { V re, im; };
typedef Cx<f64> Root;
template <class V> JC_INLINE Cx<V> plus(Cx<V> a, Cx<V> b) { return {a.re + b.re, a.im + b.im}; }
template <class V> JC_INLINE Cx<V> minus(Cx<V> a, Cx<V> b) { return {a.re - b.re, a.im - b.im}; }
template <class V, class E> JC_INLINE Cx<V> times(Cx<V> a, Cx<E> b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
template <class V> JC_INLINE Cx<V> turned(Cx<V> a) { return {a.im, -a.re}; }  // times -i
template <class V> JC_INLINE Cx<V> exchanged(Cx<V> a) { return {a.im, a.re}; }

// out[k] = exp(-2 pi i k / n). The angle is reduced in integers: at most pi/4 is left.
template <class E> JC_NOINLINE void fft_roots(Cx<E> *out, i64 n) {
  for (i64 k = 0; k < n; k++) {
    i64 quarter = (8 * k + n) / (2 * n);
    f64 angle = 0x1.921fb54442d18p+0 * (f64)(4 * k - quarter * n) / (f64)n, z = angle * angle;
    f64 c = cos_poly(angle, z), s = sin_poly(angle, z);
    Root root = {c, -s};
    for (i64 q = 0; q < (quarter & 3); q++) root = turned(root);
    out[k] = {(E)root.re, (E)root.im};
  }
}
// One pass by the factor r: y[q + s (r p + v)] = w^(p v s) sum_u x[q + s (p + m u)] w_r^(u v).
template <int R, class V> JC_INLINE void fft_butterfly(const Cx<V> *t, Cx<V> *y) {
  if constexpr (R == 2) {
    y[0] = plus(t[0], t[1]), y[1] = minus(t[0], t[1]);
  } else {
    Cx<V> a = plus(t[0], t[2]), b = minus(t[0], t[2]), c = plus(t[1], t[3]), d = turned(minus(t[1], t[3]));
    y[0] = plus(a, c), y[1] = plus(b, d), y[2] = minus(a, c), y[3] = minus(b, d);
  }
}
template <int R, class V, class E> JC_NOINLINE void fft_pass(const Cx<V> *x, Cx<V> *y, i64 m, i64 s, const Cx<E> *w) {
  for (i64 p = 0; p < m; p++) {
    Cx<E> turn[R];
    for (int v = 0; v < R; v++) turn[v] = w[p * v * s];
    for (i64 q = 0; q < s; q++) {
      Cx<V> t[R], z[R];
      for (int u = 0; u < R; u++) t[u] = x[q + s * (p + m * u)];
      fft_butterfly<R>(t, z);
      for (int v = 0; v < R; v++) y[q + s * (R * p + v)] = v ? times(z[v], turn[v]) : z[v];
    }
  }
}
template <class V, class E> JC_NOINLINE void fft_pass_any(i64 r, const Cx<V> *x, Cx<V> *y, i64 m, i64 s, i64 n, const Cx<E> *w) {
  i64 step = n / r;
  for (i64 p = 0; p < m; p++)
    for (i64 q = 0; q < s; q++)
      for (i64 v = 0; v < r; v++) {
        Cx<V> sum = x[q + s * p];
        for (i64 u = 1, at = v; u < r; u++, at = at + v < r ? at + v : at + v - r)
          sum = plus(sum, times(x[q + s * (p + m * u)], w[at * step]));
        y[q + s * (r * p + v)] = times(sum, w[p * v * s]);
      }
}
// The transform of a by means of b; returns where the result is. w: the n roots.
template <class V, class E> JC_NOINLINE Cx<V> *fft_passes(Cx<V> *a, Cx<V> *b, i64 n, const i64 *factors, const Cx<E> *w) {
  i64 s = 1;
  for (; *factors; s *= *factors++) {
    i64 r = *factors, m = n / (s * r);
    if (r == 4) fft_pass<4>(a, b, m, s, w);
    else if (r == 2) fft_pass<2>(a, b, m, s, w);
    else fft_pass_any(r, a, b, m, s, n, w);
    Cx<V> *t = a;
    a = b;
    b = t;
  }
  return a;
}
// What all lines share, at `room`: the roots; for a chirp its values and the transform of their conjugates.
template <class E> struct FftTables { Cx<E> *roots, *chirp, *filter; };
template <class E> JC_NOINLINE FftTables<E> fft_tables(const Fft &f, Cx<E> *room) {
  i64 n = f.n, m = f.chirp;
  if (!m) {
    fft_roots(room, n);
    return {room, nullptr, nullptr};
  }
  FftTables<E> t = {room, room + m, room + m + n};
  Cx<E> *twice = t.filter, *work = t.filter + m;  // 2 n <= m + 1 roots of exp(-pi i k / n)
  fft_roots(twice, 2 * n);
  for (i64 k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) t.chirp[k] = twice[square];
  fft_roots(t.roots, m);
  for (i64 k = 0; k < m; k++) work[k] = {0, 0};
  for (i64 k = 0; k < n; k++) work[k] = work[k ? m - k : 0] = {t.chirp[k].re, -t.chirp[k].im};
  Cx<E> *found = fft_passes(work, work + m, m, f.factors, t.roots);
  for (i64 k = 0; k < m; k++) t.filter[k] = {found[k].re / (E)m, found[k].im / (E)m};
  return t;
}
// The transform of the n values at `a`; `a` and `b` have room for as many as are convolved.
template <class V, class E> JC_NOINLINE Cx<V> *fft_line(const Fft &f, const FftTables<E> &t, Cx<V> *a, Cx<V> *b) {
  i64 n = f.n, m = f.chirp;
  if (!m) return fft_passes(a, b, n, f.factors, t.roots);
  for (i64 k = 0; k < n; k++) a[k] = times(a[k], t.chirp[k]);
  for (i64 k = n; k < m; k++) a[k] = {V{}, V{}};
  Cx<V> *x = fft_passes(a, b, m, f.factors, t.roots), *other = x == a ? b : a;
  for (i64 k = 0; k < m; k++) x[k] = exchanged(times(x[k], t.filter[k]));  // backward
  Cx<V> *y = fft_passes(x, other, m, f.factors, t.roots);
  for (i64 k = 0; k < n; k++) y[k] = times(exchanged(y[k]), t.chirp[k]);
  return y;
}
// How elements are read and written. A real output keeps the real part.
template <class E, class T> JC_INLINE Cx<E> fft_value(T x) {
  if constexpr (__is_class(T)) return {(E)x.re, (E)x.im};
  else return {(E)x, 0};
}
template <class T, class E> JC_INLINE void fft_store(T *at, Cx<E> x) {
  if constexpr (__is_class(T)) *at = {(decltype(at->re))x.re, (decltype(at->re))x.im};
  else *at = (T)x.re;
}
template <class E, int W> JC_INLINE void fft_put(Cx<vec<E, W>> &at, int lane, Cx<E> x) {
  if constexpr (W == 1) at = {x.re, x.im};
  else at.re[lane] = x.re, at.im[lane] = x.im;
}
template <class E, int W> JC_INLINE Cx<E> fft_get(const Cx<vec<E, W>> &at, int lane) {
  if constexpr (W == 1) return {at.re, at.im};
  else return {at.re[lane], at.im[lane]};
}
// a[k] of each lane = x[from[lane] + k * step], of `given` elements; what is not given of n are zeros, or, with
// `half`, the conjugates of what is. A backward transform gets its parts exchanged.
template <class E, int W, class T> JC_INLINE void fft_take(Cx<vec<E, W>> *a, i64 n, i64 given, bool backward, bool half, const T *x, const i64 *from, i64 step) {
  i64 most = half ? n / 2 + 1 : n, direct = given < most ? given : most;
  for (i64 k = 0; k < direct; k++) {
    Cx<vec<E, W>> v;
    JC_UNROLL
    for (int lane = 0; lane < W; lane++) fft_put<E, W>(v, lane, fft_value<E>(x[from[lane] + k * step]));
    a[k] = v;
  }
  if (half) {
    a[0].im = vec<E, W>{};
    if (n % 2 == 0 && n / 2 < direct) a[n / 2].im = vec<E, W>{};
  }
  for (i64 k = direct; k < n; k++) a[k] = half && n - k < direct ? Cx<vec<E, W>>{a[n - k].re, -a[n - k].im} : Cx<vec<E, W>>{};
  if (backward)
    for (i64 k = 0; k < n; k++) a[k] = exchanged(a[k]);
}
// out[to[lane] + k * step] = y[k] of each lane that is live, scaled.
template <class E, int W, class R> JC_INLINE void fft_give(const Cx<vec<E, W>> *y, i64 kept, bool backward, E scale, R *out, const i64 *to, i64 step, int live) {
  for (i64 k = 0; k < kept; k++) {
    Cx<vec<E, W>> v = backward ? exchanged(y[k]) : y[k];
    v = {v.re * scale, v.im * scale};
    if (live == W) {
      JC_UNROLL
      for (int lane = 0; lane < W; lane++) fft_store(out + to[lane] + k * step, fft_get<E, W>(v, lane));
    } else {
      for (int lane = 0; lane < live; lane++) fft_store(out + to[lane] + k * step, fft_get<E, W>(v, lane));
    }
  }
}

// Lines of `given` elements of x become lines of `kept` of out, W of E at a time. `half`: what is not given
// are the conjugates of what is. out may be x where given == kept.
template <int W, class E, class T, class R>
JC_NOINLINE void fft(const Fft &f, i64 outer, i64 inner, i64 given, i64 kept, bool backward, bool half, f64 scale, const T *x, R *out, char *room) {
  typedef vec<E, W> V;
  i64 n = f.n, length = f.chirp ? f.chirp : n, lines = outer * inner;
  Cx<E> *shared = (Cx<E> *)room;
  Cx<V> *own = (Cx<V> *)(room + 64 * (((f.chirp ? 4 * length + n : n) * 16 + 63) / 64));
  FftTables<E> t = fft_tables(f, shared);
  parallel((lines + W - 1) / W, 1, team_for(lines * n * 64), [=, &f](i64 lo, i64 hi) {
    Cx<V> *a = own + member() * 2 * length, *b = a + length;
    for (i64 first = lo * W; first < hi * W; first += W) {
      int live = lines - first < W ? (int)(lines - first) : W;
      i64 from[W], to[W];
      for (int lane = 0; lane < W; lane++) {  // lanes without a line of their own repeat the last
        i64 line = first + (lane < live ? lane : live - 1);
        from[lane] = line / inner * given * inner + line % inner;
        to[lane] = line / inner * kept * inner + line % inner;
      }
      fft_take<E, W>(a, n, given, backward, half, x, from, inner);
      fft_give<E, W>(fft_line(f, t, a, b), kept, backward, (E)scale, out, to, inner, live);
    }
  });
}
}  // namespace jc
