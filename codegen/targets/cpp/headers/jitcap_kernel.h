// What emitted kernels say beyond the vocabulary: full and tail blocks, guarded memory, reductions in steps, draws.
//
// A loop body is one generic lambda called with Full (all W lanes) or Tail (the first n lanes); Full
// compiles to plain vector code, Tail to masked memory. Guarded loads read only where a mask holds.
#pragma once
#include "jitcap_math.h"
#include "jitcap_rt.h"

namespace jc {
struct c64 { f32 re, im; };  // of library steps: jitcap_complex.h, jitcap_fft.h
struct c128 { f64 re, im; };
// One loop over the blocks of all members of a table: T has the number of rows `n0`. A block is `block`
// rows, a row weighs `bytes`. part(member, lo, hi) runs blocks of one member.
template <class T, class F> JC_INLINE void batch(const T *t, int members, i64 block, i64 bytes, F part) {
  i64 blocks = 0, rows = 0;
  for (int i = 0; i < members; i++) blocks += (t[i].n0 + block - 1) / block, rows += t[i].n0;
  parallel(blocks, 1, team_for(rows * bytes), [=](i64 lo, i64 hi) {
    i64 at = 0;
    for (int i = 0; i < members && at < hi; i++) {
      i64 n = (t[i].n0 + block - 1) / block;
      i64 a = lo > at ? lo : at, b = hi < at + n ? hi : at + n;
      if (a < b) part(t[i], a - at, b - at);
      at += n;
    }
  });
}
struct Full { static constexpr bool full = true; };
struct Tail { static constexpr bool full = false; };
#define JC_BODY __attribute__((always_inline))

template <class B, int W, class T> JC_INLINE auto ld(const T *p, int n) {
  if constexpr (B::full) return load<W>(p);
  else return load_n<W>(p, n);
}
template <class B, class T, class V> JC_INLINE void st(T *p, V v, int n) {
  if constexpr (B::full) store(p, v);
  else store_n(p, v, n);
}
template <class B, class T, class V> JC_INLINE void stream(T *p, V v, int n) {
  if constexpr (B::full) store_stream(p, v);
  else store_n(p, v, n);
}
template <class B, int W, class T> JC_INLINE auto ld_strided(const T *p, i64 step, int n) {
  if constexpr (B::full) return strided<W>(p, step);
  else return strided<W>(p, step, n);
}
template <class B, class T, class V> JC_INLINE void st_strided(T *p, i64 step, V v, int n) {
  store_strided(p, step, v, B::full ? lanes<V> : n);
}
// A scalar in its register type: mask (i32) for bool, f32 for the 16-bit floats.
template <class T> JC_INLINE auto ld1(const T *p) { return load<1>(p); }
template <class T> JC_INLINE auto ld1_if(const T *p, i32 m) {
  typedef decltype(load<1>(p)) R;
  return m ? load<1>(p) : R(0);
}
// lanes_of<W>(n, f): lane i is f(i), for i < n; f is not called beyond.
template <class V, class F> JC_INLINE V lanes_of(int n, F f) {
  if constexpr (lanes<V> == 1) return n > 0 ? f(0) : V(0);
  else {
    V r{};
    if (n == lanes<V>) {
      JC_UNROLL
      for (int i = 0; i < lanes<V>; i++) r[i] = f(i);
    } else
      for (int i = 0; i < n; i++) r[i] = f(i);
    return r;
  }
}
// The same where m holds, 0 elsewhere.
template <class V, class F> JC_INLINE V lanes_if(mask<lanes<V>> m, int n, F f) {
  if (!any(m)) return V{};
  return lanes_of<V>(n, [=](int i) { return lane(m, i) ? elem<V>(f(i)) : elem<V>(0); });
}
// Contiguous load of the lanes where m holds; 0 elsewhere, and nothing is read there.
template <class B, int W, class T> JC_INLINE auto ld_if(const T *p, mask<W> m, int n) {
  typedef decltype(load<W>(p)) V;
  if constexpr (W == 1) return ld1_if(p, (B::full || n > 0) ? m : 0);
  else {
    if (B::full && all(m)) return load<W>(p);
    return lanes_if<V>(m, n, [=](int i) { return load<1>(p + i); });
  }
}
template <class V> JC_INLINE V tail(V v, int n, elem<V> identity, bool full) { return full ? v : keep(v, n, identity); }

// argmax / argmin: NaN is extreme, the smallest position wins among equals. Where positions come in
// rising order (Rising) none is smaller than one before, and what equals the identity stays nowhere.
template <bool Max, bool Rising, class V, class P>
JC_INLINE void arg_step(V x, P at, mask<lanes<V>> live, V &best, P &where) {
  auto nan_b = is_nan(best);
  auto wins = ~(Max ? le(x, best) : ge(x, best)) & ~nan_b & live;  // better, or NaN
  if constexpr (!Rising) wins = wins | ((eq(x, best) | (is_nan(x) & nan_b)) & lt(at, where) & live);
  best = select(wins, x, best);
  where = select(wins, at, where);
}
// Nowhere means that all elements are the identity: the first one's position then.
template <class P> JC_INLINE like<P, i64> arg_place(P where, elem<P> first) {
  return cvt<i64>(select(eq(where, fill<P>(elem<P>(elem<uints<P>>(-1) >> 1))), fill<P>(first), where));
}
template <bool Max, class V, class P> JC_INLINE i64 arg_final(V best, P where, elem<P> first) {
  if constexpr (lanes<V> == 1) return arg_place(where, first);
  else {
    elem<V> b = best[0];
    elem<P> w = where[0];
    for (int i = 1; i < lanes<V>; i++) {
      elem<V> x = best[i];
      elem<P> at = where[i];
      arg_step<Max, false>(x, at, -1, b, w);
    }
    return arg_place(w, first);
  }
}
template <int W> JC_INLINE mask<W> live_lanes(int n) { return lt(iota<mask_lane<W>, W>(), fill<mask<W>>(n)); }

// An index from data: recorded as an error, and replaced by lo, where it is outside [lo, hi].
template <class V> JC_NOINLINE V outside(V i, i64 lo, i64 hi, int n, void *arena, i64 site) {
  elem<V> x[lanes<V>];
  __builtin_memcpy(x, &i, sizeof i);
  for (int k = 0; k < lanes<V>; k++)
    if (x[k] < lo || x[k] > hi) {
      if (k < n) fail(arena, JC_INDEX, site, x[k], hi + 1);
      x[k] = elem<V>(lo);
    }
  __builtin_memcpy(&i, x, sizeof i);
  return i;
}
template <class V> JC_INLINE V bounded(V i, i64 lo, i64 hi, int n, void *arena, i64 site) {
  auto bad = (i < elem<V>(lo)) | (i > elem<V>(hi));  // not lt(): 64 bits need not become a mask
  if (__builtin_expect(any(bad), 0)) return outside(i, lo, hi, n, arena, site);
  return i;
}
JC_INLINE i64 fdiv(i64 a, i64 b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
JC_INLINE i64 fmod_i(i64 a, i64 b) { i64 r = a % b; return r < 0 ? r + b : r; }

// Philox draws for the flat elements `index` (i64 lanes).
template <class I> JC_INLINE void words(like<I, u32> *w, i64 seed, i64 ordinal, I index) {
  typedef like<I, u32> U;
  w[0] = cvt<u32>(index);
  w[1] = cvt<u32>(like<I, i64>(index >> 32));
  w[2] = fill<U>((u32)ordinal);
  w[3] = fill<U>((u32)((u64)ordinal >> 32));
  philox(w, (u64)seed);
}
template <class T, class I> JC_INLINE like<I, T> random_uniform(i64 seed, i64 ordinal, I index) {
  like<I, u32> w[4];
  words(w, seed, ordinal, index);
  if constexpr (same<T, f32>) return uniform_f32(w[0]);
  else return uniform_f64(w[0], w[1]);
}
template <class T, class I> JC_INLINE like<I, T> random_normal(i64 seed, i64 ordinal, I index) {
  typedef like<I, T> V;
  like<I, u32> w[4];
  words(w, seed, ordinal, index);
  V u0, u1;
  if constexpr (same<T, f32>) u0 = uniform_f32(w[0]), u1 = uniform_f32(w[1]);
  else u0 = cvt<f64>(cvt<i64>(w[0])) * 0x1p-32, u1 = cvt<f64>(cvt<i64>(w[1])) * 0x1p-32;
  V r = sqrt(V(log(V(fill<V>(1) - u0)) * fill<V>(-2)));
  return r * cos(V(u1 * fill<V>(T(6.283185307179586))));
}
template <class T, class I> JC_INLINE like<I, i64> random_bits(i64 seed, i64 ordinal, I index) {
  like<I, u32> w[4];
  words(w, seed, ordinal, index);
  return cvt<i64>(w[0]);
}
}  // namespace jc
