// Library steps: the numbers of a floating point type, by their bits.
#pragma once
#include "jitcap_dot.h"

namespace jc {
// The next number from x toward y.
template <class T> JC_INLINE T next_after(T x, T y) {
  typedef typename IntOf<sizeof(T)>::u U;
  if (x != x || y != y) return x + y;
  if (x == y) return y;
  if (x == 0) return y > 0 ? bitcast<T>(U(1)) : -bitcast<T>(U(1));
  U bits = bitcast<U>(x);
  return bitcast<T>(U((y > x) == (x > 0) ? bits + 1 : bits - 1));
}
template <class T> JC_NOINLINE void nextafter(i64 n, const T *x, const T *y, T *out) {
  parallel(n, 64, team_for(3 * n * (i64)sizeof(T)), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) out[i] = next_after(x[i], y[i]);
  });
}
// x = mantissa * 2^exponent, the mantissa from 1/2 to 1; what has none stays, with the exponent 0.
template <class T> JC_NOINLINE void frexp(i64 n, const T *x, T *mantissa, i32 *exponent) {
  parallel(n, 64, team_for(n * (i64)(2 * sizeof(T) + 4)), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) {
      T v = x[i], size = abs(v);
      int power = 0;
      if (size > 0 && size < __builtin_inf()) v = (T)__builtin_frexp(v, &power);
      mantissa[i] = v;
      exponent[i] = power;
    }
  });
}
}  // namespace jc
