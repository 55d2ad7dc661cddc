// Library steps: pooling over windows of one to three dimensions, contiguous (maps, *spatial) tensors.
//
// Taps are visited in row-major order and combined one after the other, as eager does: sums agree bit by
// bit. Interior columns of a row are computed in lanes, columns whose window leaves the row one by one.
#pragma once
#include "jitcap_dot.h"

namespace jc {
struct Pool {  // three spatial dimensions each; maps: samples times channels
  i64 maps, in[3], out[3], k[3], stride[3], pad[3], dil[3];
};
// Columns [lo, hi) of the result whose windows stay inside a row.
JC_INLINE void inside(const Pool &p, i64 *lo, i64 *hi) {
  i64 last = p.in[2] - 1 + p.pad[2] - (p.k[2] - 1) * p.dil[2];
  *lo = (p.pad[2] + p.stride[2] - 1) / p.stride[2];
  *hi = last < 0 ? 0 : last / p.stride[2] + 1;
  if (*hi > p.out[2]) *hi = p.out[2];
  if (*lo > *hi) *lo = *hi;
}
// W results from column `x` on, whose windows lie `step` apart; f(value lanes, place) per tap that lies inside
// the map.
template <int W, class T, class F> JC_INLINE void window(const Pool &p, const T *map, i64 z, i64 y, i64 x, i64 step, F f) {
  for (i64 a = 0; a < p.k[0]; a++) {
    i64 d = z * p.stride[0] - p.pad[0] + a * p.dil[0];
    if (d < 0 || d >= p.in[0]) continue;
    for (i64 b = 0; b < p.k[1]; b++) {
      i64 h = y * p.stride[1] - p.pad[1] + b * p.dil[1];
      if (h < 0 || h >= p.in[1]) continue;
      i64 row = (d * p.in[1] + h) * p.in[2];
      for (i64 c = 0; c < p.k[2]; c++) {
        i64 w = x * p.stride[2] - p.pad[2] + c * p.dil[2];
        if (W == 1 && (w < 0 || w >= p.in[2])) continue;
        f(step == 1 ? load<W>(map + row + w) : strided<W>(map + row + w, step), row + w);
      }
    }
  }
}
// run(map, z, y, lo, hi) for every row of results; windows of columns [lo, hi) stay inside the row.
template <class F> JC_INLINE void pool_rows(const Pool &p, i64 bytes, F run) {
  i64 lo, hi, rows = p.out[0] * p.out[1];
  inside(p, &lo, &hi);
  parallel(p.maps * rows, 1, team_for(bytes), [=](i64 first, i64 last) {
    for (i64 r = first; r < last; r++) run(r / rows, r / p.out[1] % p.out[0], r % p.out[1], lo, hi);
  });
}
// Of one row; or of one place each of W maps, `apart` elements from one to the next.
template <int W, class T> JC_INLINE void max_pool_at(const Pool &p, const T *map, i64 z, i64 y, i64 x, T *value, i64 *place, i64 apart = 0) {
  typedef vec<T, W> V;
  typedef like<V, i32> I;
  V best = fill<V>(T(-__builtin_inf()));
  I at = fill<I>(-1);
  window<W>(p, map, z, y, x, apart ? apart : p.stride[2], [&](V v, i64 first) {
    I here = fill<I>((i32)first) + iota<i32, W>() * (apart ? 0 : (i32)p.stride[2]);
    auto wins = gt(v, best) | ne(v, v) | lt(at, fill<I>(0));
    best = select(wins, v, best);
    at = select(wins, here, at);
  });
  store(value, best);
  store(place, cvt<i64>(at));
}
// Results from i on, by W of them, then by fewer: rows of small maps are shorter than a vector. The first
// that is left, of fewer than two.
template <int W, class T> JC_INLINE i64 max_pool_row(const Pool &p, const T *map, i64 z, i64 y, i64 i, i64 hi, T *value, i64 *place) {
  for (; i + W <= hi; i += W) max_pool_at<W>(p, map, z, y, i, value + i, place + i);
  if constexpr (W > 2) return max_pool_row<W / 2>(p, map, z, y, i, hi, value, place);
  return i;
}
// NaN wins, the first of equal values wins, padding never does. Maps hold fewer than 2^31 elements.
template <class T> JC_NOINLINE void max_pool(const Pool &p, const T *x, T *values, i64 *places) {
  constexpr int W = JC_BYTES / sizeof(T);
  i64 size = p.in[0] * p.in[1] * p.in[2], row = p.out[2], taps = p.k[0] * p.k[1] * p.k[2];
  i64 bytes = p.maps * p.out[0] * p.out[1] * row * taps * (i64)sizeof(T), from, to;
  inside(p, &from, &to);
  if (p.out[0] * p.out[1] * row == 1 && from < to) {  // one result each: lanes are maps
    parallel(p.maps, W, team_for(bytes), [=](i64 m, i64 hi) {
      for (; m + W <= hi; m += W) max_pool_at<W>(p, x + m * size, 0, 0, 0, values + m, places + m, size);
      for (; m < hi; m++) max_pool_at<1>(p, x + m * size, 0, 0, 0, values + m, places + m);
    });
    return;
  }
  pool_rows(p, bytes, [=](i64 m, i64 z, i64 y, i64 lo, i64 hi) {
    const T *map = x + m * size;
    i64 at = ((m * p.out[0] + z) * p.out[1] + y) * row, i = 0;
    T *v = values + at;
    i64 *o = places + at;
    for (; i < lo; i++) max_pool_at<1>(p, map, z, y, i, v + i, o + i);
    i = max_pool_row<W>(p, map, z, y, i, hi, v, o);
    for (; i < row; i++) max_pool_at<1>(p, map, z, y, i, v + i, o + i);
  });
}
template <int W, class T> JC_INLINE void sum_pool_at(const Pool &p, const T *map, i64 z, i64 y, i64 x, T *out) {
  vec<T, W> sum = splat<T, W>(0);
  window<W>(p, map, z, y, x, p.stride[2], [&](vec<T, W> v, i64) { sum = sum + v; });
  store(out, sum);
}
template <class T> JC_NOINLINE void sum_pool(const Pool &p, const T *x, T *out) {
  constexpr int W = JC_BYTES / sizeof(T);
  i64 size = p.in[0] * p.in[1] * p.in[2], row = p.out[2], taps = p.k[0] * p.k[1] * p.k[2];
  pool_rows(p, p.maps * p.out[0] * p.out[1] * row * taps * (i64)sizeof(T), [=](i64 m, i64 z, i64 y, i64 lo, i64 hi) {
    const T *map = x + m * size;
    T *o = out + ((m * p.out[0] + z) * p.out[1] + y) * row;
    i64 i = 0;
    for (; i < lo; i++) sum_pool_at<1>(p, map, z, y, i, o + i);
    for (; i + W <= hi; i += W) sum_pool_at<W>(p, map, z, y, i, o + i);
    for (; i < row; i++) sum_pool_at<1>(p, map, z, y, i, o + i);
  });
}
// Each input's sum over the windows that hold it (dilation 1), by rows of the input, in the order of taps.
template <class T> JC_NOINLINE void sum_pool_grad(const Pool &p, const T *grad, T *out) {
  i64 size = p.out[0] * p.out[1] * p.out[2], rows = p.in[0] * p.in[1], width = p.in[2];
  parallel(p.maps * rows, 1, team_for(p.maps * rows * width * 2 * (i64)sizeof(T)), [=](i64 first, i64 last) {
    for (i64 r = first; r < last; r++) {
      const T *map = grad + r / rows * size;
      i64 place[3] = {r / p.in[1] % p.in[0], r % p.in[1], 0};
      T *o = out + r * width;
      for (i64 x = 0; x < width; x++) o[x] = 0;
      for (i64 a = 0; a < p.k[0]; a++) {
        i64 z = place[0] + p.pad[0] - a;
        if (z < 0 || z % p.stride[0] || z / p.stride[0] >= p.out[0]) continue;
        for (i64 b = 0; b < p.k[1]; b++) {
          i64 y = place[1] + p.pad[1] - b;
          if (y < 0 || y % p.stride[1] || y / p.stride[1] >= p.out[1]) continue;
          const T *g = map + (z / p.stride[0] * p.out[1] + y / p.stride[1]) * p.out[2];
          for (i64 c = 0; c < p.k[2]; c++) {
            i64 s = p.stride[2], w = c < p.pad[2] ? (p.pad[2] - c + s - 1) / s : 0;  // the first window whose tap c is inside
            for (i64 x = w * s + c - p.pad[2]; w < p.out[2] && x < width; w++, x += s) o[x] += g[w];
          }
        }
      }
    }
  });
}
}  // namespace jc
