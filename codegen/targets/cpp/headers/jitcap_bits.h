// Library steps: the numbers of a floating point type, by their bits.
#pragma once
#include "jitcap_dot.h"

namespace jc {
// The next number from x toward y: away from 0 the bits plus 1, toward it minus 1.
template <class V> JC_INLINE V next_after(V x, V y) {
  typedef ints<V> I;
  V zero = fill<V>(0), least = bitcast<V>(fill<I>(1));
  I step = select(eq(lt(x, y) & 1, gt(x, zero) & 1), fill<I>(1), fill<I>(-1));
  V moved = select(eq(x, zero), copysign(least, y), bitcast<V>(I(bitcast<I>(x) + step)));
  return select(is_nan(x) | is_nan(y), V(x + y), select(eq(x, y), y, moved));
}
template <class T> JC_NOINLINE void nextafter(i64 n, const T *x, const T *y, T *out) {
  constexpr int N = JC_BYTES / sizeof(T);
  parallel(n, 64, team_for(3 * n * (i64)sizeof(T)), [=](i64 lo, i64 hi) {
    i64 i = lo;
    for (; i + N <= hi; i += N) store(out + i, next_after(load<N>(x + i), load<N>(y + i)));
    for (; i < hi; i++) out[i] = next_after(x[i], y[i]);
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
