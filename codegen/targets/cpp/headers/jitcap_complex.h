// Library steps: arithmetic on complex numbers, element by element, as NumPy has it.
#pragma once
#include "jitcap_dot.h"

namespace jc {
template <class C> struct PartOf { typedef f32 type; };
template <> struct PartOf<c128> { typedef f64 type; };
template <class C> using part = typename PartOf<C>::type;

struct Re { template <class C> static JC_INLINE part<C> apply(C x) { return x.re; } };
struct Im { template <class C> static JC_INLINE part<C> apply(C x) { return x.im; } };
struct Conj { template <class C> static JC_INLINE C apply(C x) { return {x.re, -x.im}; } };
struct Neg { template <class C> static JC_INLINE C apply(C x) { return {-x.re, -x.im}; } };
struct Same { template <class C> static JC_INLINE C apply(C x) { return x; } };
struct Angle { template <class C> static JC_INLINE part<C> apply(C x) { return atan2(x.im, x.re); } };
struct Abs {  // in f64 a square of a f32 does not overflow; a f64 is scaled by its larger part
  template <class C> static JC_INLINE part<C> apply(C x) {
    if constexpr (sizeof(part<C>) == 4) {
      if (__builtin_isinf(x.re) || __builtin_isinf(x.im)) return __builtin_inff();
      return (f32)sqrt((f64)x.re * x.re + (f64)x.im * x.im);
    } else {
      f64 a = __builtin_fabs(x.re), b = __builtin_fabs(x.im), most = a > b ? a : b, least = a > b ? b : a;
      if (__builtin_isinf(a) || __builtin_isinf(b)) return __builtin_inf();
      if (!(a == a && b == b)) return a + b;
      if (most == 0) return 0;
      f64 r = least / most;
      return most * sqrt(1 + r * r);
    }
  }
};
struct Pair { template <class T> static JC_INLINE auto apply(T a, T b) {
  if constexpr (sizeof(T) == 4) return c64{a, b};
  else return c128{a, b};
} };
struct WithRe { template <class C> static JC_INLINE C apply(C x, part<C> re) { return {re, x.im}; } };
struct WithIm { template <class C> static JC_INLINE C apply(C x, part<C> im) { return {x.re, im}; } };
struct Plus { template <class C> static JC_INLINE C apply(C a, C b) { return {a.re + b.re, a.im + b.im}; } };
struct Minus { template <class C> static JC_INLINE C apply(C a, C b) { return {a.re - b.re, a.im - b.im}; } };
struct Times { template <class C> static JC_INLINE C apply(C a, C b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; } };
struct Over {  // Smith's division, which scales by the larger part
  template <class C> static JC_INLINE C apply(C a, C b) {
    typedef part<C> T;
    T x = b.re < 0 ? -b.re : b.re, y = b.im < 0 ? -b.im : b.im;
    if (x >= y) {
      if (x == 0 && y == 0) return {a.re / x, a.im / x};
      T ratio = b.im / b.re, scale = T(1) / (b.re + b.im * ratio);
      return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    T ratio = b.re / b.im, scale = T(1) / (b.im + b.re * ratio);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
  }
};
struct Squared { template <class C> static JC_INLINE C apply(C x) { return Times::apply(x, x); } };
struct Inverse { template <class C> static JC_INLINE C apply(C x) { return Over::apply(C{1, 0}, x); } };
JC_NOINLINE inline void complex_of(i64 n, const c64 *x, c128 *out) {
  parallel(n, 64, team_for(n * 24), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) out[i] = {x[i].re, x[i].im};
  });
}
template <class C, class T> JC_NOINLINE void complex_of(i64 n, const T *x, C *out) {
  parallel(n, 64, team_for(n * (i64)(sizeof(T) + sizeof(C))), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) out[i] = {(part<C>)load<1>(x + i), 0};
  });
}
template <class Op, class T, class R> JC_NOINLINE void complex_map(i64 n, const T *x, R *out) {
  parallel(n, 64, team_for(n * (i64)(sizeof(T) + sizeof(R))), [=](i64 lo, i64 hi) {
    i64 i = lo;
    if constexpr (same<Op, Angle>) {
      constexpr int N = JC_BYTES / sizeof(R);
      auto parts = (const R *)x;
      for (; i + N <= hi; i += N) store(out + i, atan2(strided<N>(parts + 2 * i + 1, 2), strided<N>(parts + 2 * i, 2)));
    }
    for (; i < hi; i++) out[i] = Op::apply(x[i]);
  });
}
// Of two arrays, or of an array and a number.
template <class T> JC_INLINE auto element(T *x, i64 i) { return x[i]; }
template <class T> JC_INLINE T element(T x, i64) { return x; }
template <class Op, class X, class Y, class R> JC_NOINLINE void complex_map(i64 n, X x, Y y, R *out) {
  parallel(n, 64, team_for(3 * n * (i64)sizeof(R)), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) out[i] = Op::apply(element(x, i), element(y, i));
  });
}
}  // namespace jc
