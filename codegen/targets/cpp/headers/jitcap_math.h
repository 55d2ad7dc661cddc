// The scalar vocabulary of eager/base/scalar.py in C++: one function per intrinsic, on vectors and scalars.
//
// Every intrinsic `name` is jc::name (and_ or_ xor_ not_ where C++ reserves the word; `where` is
// select, `cast` is cvt<T>). Vector and scalar calls run the same algorithm and agree bit by bit.
// NaN, infinities, signed zeros and denormals are kept; integer overflow wraps; an integer divided
// by zero is 0 and nothing traps.
#pragma once
#include "jitcap_simd.h"

namespace jc {
// ---- builtins per native width ----------------------------------------------------------------
// fma(a, b, c) rounds once. Processors without it (x86 before 2013) get a slow but exact enough one:
// the argument reductions rely on it.
#if defined(__FMA__) || defined(__aarch64__)
JC_INLINE f32 fma(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
#else
JC_INLINE f32 fma(f32 a, f32 b, f32 c) { return (f32)((f64)a * b + c); }
#endif
JC_INLINE f64 fma(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
JC_INLINE f32 sqrt(f32 x) { return __builtin_sqrtf(x); }
JC_INLINE f64 sqrt(f64 x) { return __builtin_sqrt(x); }
JC_INLINE f32 round_(f32 x, int how) {
  return how == 0 ? __builtin_rintf(x) : how == 1 ? __builtin_floorf(x) : how == 2 ? __builtin_ceilf(x) : __builtin_truncf(x);
}
JC_INLINE f64 round_(f64 x, int how) {
  return how == 0 ? __builtin_rint(x) : how == 1 ? __builtin_floor(x) : how == 2 ? __builtin_ceil(x) : __builtin_trunc(x);
}
#define JC_LOOP(V, call)                          \
  V r = a;                                        \
  JC_UNROLL                                       \
  for (int i = 0; i < lanes<V>; i++) r[i] = call; \
  return r;
template <class V> JC_INLINE V fma(V a, V b, V c) {
  constexpr int Bytes = sizeof(V);
  constexpr bool S = same<elem<V>, f32>;
#if defined(__FMA__) && JC_X86
#if JC_AVX512
  if constexpr (Bytes == 64 && S) return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4);
  else if constexpr (Bytes == 64) return __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4);
  else
#endif
  if constexpr (Bytes == 32 && S) return __builtin_ia32_vfmaddps256(a, b, c);
  else if constexpr (Bytes == 32) return __builtin_ia32_vfmaddpd256(a, b, c);
  else if constexpr (Bytes == 16 && S) return __builtin_ia32_vfmaddps(a, b, c);
  else if constexpr (Bytes == 16) return __builtin_ia32_vfmaddpd(a, b, c);
  else
#endif
  { JC_LOOP(V, fma(a[i], b[i], c[i])) }
}
template <class V> JC_INLINE V sqrt(V a) {
  constexpr int Bytes = sizeof(V);
  constexpr bool S = same<elem<V>, f32>;
#if JC_X86
#if JC_AVX512
  if constexpr (Bytes == 64 && S) return __builtin_ia32_sqrtps512_mask(a, a, -1, 4);
  else if constexpr (Bytes == 64) return __builtin_ia32_sqrtpd512_mask(a, a, -1, 4);
  else
#endif
#if defined(__AVX__)
  if constexpr (Bytes == 32 && S) return __builtin_ia32_sqrtps256(a);
  else if constexpr (Bytes == 32) return __builtin_ia32_sqrtpd256(a);
  else
#endif
  if constexpr (Bytes == 16 && S) return __builtin_ia32_sqrtps(a);
  else if constexpr (Bytes == 16) return __builtin_ia32_sqrtpd(a);
  else
#endif
  { JC_LOOP(V, sqrt(a[i])) }
}
// lesser(a, b) is a < b ? a : b, and greater likewise, in one instruction: NaN in either gives b.
#define JC_PICK(name, op, ins)                                                                \
  template <class V> JC_INLINE V name(V a, V b) {                                             \
    JC_PICK_NATIVE(ins)                                                                       \
    return select(op(a, b), a, b);                                                            \
  }
#if JC_X86 && JC_AVX512
#define JC_PICK_NATIVE(ins)                                                                    \
  constexpr int Bytes = is_float<elem<V>> && lanes<V> > 1 ? sizeof(V) : 0;                     \
  constexpr bool S = same<elem<V>, f32>;                                                       \
  if constexpr (Bytes == 64 && S) return __builtin_ia32_##ins##ps512_mask(a, b, a, -1, 4);     \
  else if constexpr (Bytes == 64) return __builtin_ia32_##ins##pd512_mask(a, b, a, -1, 4);     \
  else if constexpr (Bytes == 32 && S) return __builtin_ia32_##ins##ps256(a, b);               \
  else if constexpr (Bytes == 32) return __builtin_ia32_##ins##pd256(a, b);                    \
  else
#elif defined(__AVX__) && JC_X86
#define JC_PICK_NATIVE(ins)                                                                    \
  constexpr int Bytes = is_float<elem<V>> && lanes<V> > 1 ? sizeof(V) : 0;                     \
  if constexpr (Bytes == 32 && same<elem<V>, f32>) return __builtin_ia32_##ins##ps256(a, b);   \
  else if constexpr (Bytes == 32) return __builtin_ia32_##ins##pd256(a, b);                    \
  else
#else
#define JC_PICK_NATIVE(ins)
#endif
JC_PICK(lesser, lt, min) JC_PICK(greater, gt, max)
#undef JC_PICK
#undef JC_PICK_NATIVE
// how: 0 to nearest even, 1 down, 2 up, 3 to zero (the machine's codes).
template <int how, class V> JC_INLINE V rounded(V a) {
  if constexpr (!is_float<elem<V>>) return a;
  else if constexpr (lanes<V> == 1) return round_(a, how);
  else {
    constexpr int Bytes = sizeof(V);
    constexpr bool S = same<elem<V>, f32>;
#if defined(__SSE4_1__) && JC_X86
#if JC_AVX512
    if constexpr (Bytes == 64 && S) return __builtin_ia32_rndscaleps_mask(a, how | 8, a, -1, 4);
    else if constexpr (Bytes == 64) return __builtin_ia32_rndscalepd_mask(a, how | 8, a, -1, 4);
    else
#endif
#if defined(__AVX__)
    if constexpr (Bytes == 32 && S) return __builtin_ia32_roundps256(a, how | 8);
    else if constexpr (Bytes == 32) return __builtin_ia32_roundpd256(a, how | 8);
    else
#endif
    if constexpr (Bytes == 16 && S) return __builtin_ia32_roundps(a, how | 8);
    else if constexpr (Bytes == 16) return __builtin_ia32_roundpd(a, how | 8);
    else
#endif
    { JC_LOOP(V, round_(a[i], how)) }
  }
}
#undef JC_LOOP

// ---- arithmetic -------------------------------------------------------------------------------
#define JC_BINARY(name, expr) template <class V> JC_INLINE V name(V a, V b) { return expr; }
JC_BINARY(add, a + b) JC_BINARY(sub, a - b) JC_BINARY(mul, a * b)
JC_BINARY(and_, a & b) JC_BINARY(or_, a | b) JC_BINARY(xor_, a ^ b)
#undef JC_BINARY
template <class V> JC_INLINE V not_(V a) { return ~a; }
template <class V> JC_INLINE V neg(V a) { return -a; }
template <class V> JC_INLINE mask<lanes<V>> is_nan(V a) { return ne(a, a); }
template <class V> JC_INLINE uints<V> bits(V a) { return bitcast<uints<V>>(a); }
template <class V> JC_INLINE uints<V> sign_of(V a) {  // the sign bit alone
  return bits(a) & (elem<uints<V>>(1) << (8 * sizeof(elem<V>) - 1));
}
template <class V> JC_INLINE mask<lanes<V>> sign_bit(V a) { return ne(sign_of(a), fill<uints<V>>(0)); }
template <class V> JC_INLINE V abs(V a) {
  if constexpr (is_float<elem<V>>) return bitcast<V>(bits(a) ^ sign_of(a));
  else return select(lt(a, fill<V>(0)), V(-a), a);
}
template <class V> JC_INLINE V copysign(V a, V b) { return bitcast<V>((bits(a) ^ sign_of(a)) | sign_of(b)); }
template <class V> JC_INLINE V sign(V a) {  // 0 for NaN
  V zero = fill<V>(0);
  return select(gt(a, zero), fill<V>(1), select(lt(a, zero), fill<V>(elem<V>(-1)), zero));
}
// min and max propagate NaN (torch.minimum); fmin and fmax prefer the number. The machine's own
// masks: of `a != a ? a : …` in a chain (the maximum of many) a compiler folds each test into all
// before it, for seconds.
#if JC_X86 && defined(__AVX__)
#define JC_BLEND(ins)                                                                          \
  if constexpr (Bytes == 32 && S)                                                              \
    return __builtin_ia32_blendvps256(__builtin_ia32_##ins##ps256(a, b), a,                    \
                                      __builtin_ia32_cmpps256(a, a, 3));                       \
  else if constexpr (Bytes == 32)                                                              \
    return __builtin_ia32_blendvpd256(__builtin_ia32_##ins##pd256(a, b), a,                    \
                                      __builtin_ia32_cmppd256(a, a, 3));                       \
  else
#else
#define JC_BLEND(ins)
#endif
#if JC_X86 && JC_AVX512
#define JC_MASKED(ins)                                                                         \
  if constexpr (Bytes == 64 && S)                                                              \
    return __builtin_ia32_##ins##ps512_mask(                                                   \
        a, b, a, __builtin_ia32_cmpps512_mask(a, a, 7, -1, 4), 4);                             \
  else if constexpr (Bytes == 64)                                                              \
    return __builtin_ia32_##ins##pd512_mask(                                                   \
        a, b, a, __builtin_ia32_cmppd512_mask(a, a, 7, -1, 4), 4);                             \
  else
#else
#define JC_MASKED(ins)
#endif
template <class V> JC_INLINE V unseen(V a) {  // itself, of which a compiler knows nothing
#if JC_X86
  if constexpr (sizeof(V) == 16) asm("" : "+x"(a));
#elif defined(__aarch64__)
  if constexpr (sizeof(V) == 16) asm("" : "+w"(a));
#endif
  return a;
}
#define JC_PROPAGATE(name, pick)                                                               \
  template <class V> JC_INLINE V name(V a, V b) {                                              \
    constexpr int Bytes = is_float<elem<V>> && lanes<V> > 1 ? sizeof(V) : 0;                   \
    [[maybe_unused]] constexpr bool S = same<elem<V>, f32>;                                    \
    JC_MASKED(name)                                                                            \
    JC_BLEND(name)                                                                             \
    if constexpr (is_float<elem<V>>) return select(is_nan(unseen(a)), a, pick(a, b));          \
    else return pick(a, b);                                                                    \
  }
JC_PROPAGATE(min, lesser) JC_PROPAGATE(max, greater)
#undef JC_PROPAGATE
#undef JC_MASKED
#undef JC_BLEND
template <class V> JC_INLINE V fmin(V a, V b) { return select(is_nan(b), a, lesser(a, b)); }
template <class V> JC_INLINE V fmax(V a, V b) { return select(is_nan(b), a, greater(a, b)); }
template <class V> JC_INLINE V floor(V a) { return rounded<1>(a); }
template <class V> JC_INLINE V ceil(V a) { return rounded<2>(a); }
template <class V> JC_INLINE V trunc(V a) { return rounded<3>(a); }
template <class V> JC_INLINE V round(V a) { return rounded<0>(a); }

// Integer division of one lane; Python's rounding for floor_div and mod.
template <class T> JC_INLINE T int_trunc_div(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0) && b == T(-1)) return T(-a);
  return a / b;
}
template <class T> JC_INLINE T int_fmod(T a, T b) {
  return b == 0 || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}
template <class T> JC_INLINE T int_mod(T a, T b) {
  T r = int_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
}
template <class T> JC_INLINE T int_floor_div(T a, T b) {
  T q = int_trunc_div(a, b);
  return b != 0 && T(q * b) != a && (a < 0) != (b < 0) ? T(q - 1) : q;
}
JC_INLINE f32 fmod_(f32 a, f32 b) { return __builtin_fmodf(a, b); }
JC_INLINE f64 fmod_(f64 a, f64 b) { return __builtin_fmod(a, b); }
#define JC_EACH2(fn) each(a, b, [](elem<V> x, elem<V> y) { return fn(x, y); })
// Ints divide in f64, which holds them below 2^51 (false where one is larger), bytes and shorts in f32: a
// quotient that is no whole number lies further from one than it is rounded. What is divided by 0 gives
// 0, rest 0.
template <int Bytes> struct DividesIn { typedef f64 type; };
template <> struct DividesIn<1> { typedef f32 type; };
template <> struct DividesIn<2> { typedef f32 type; };
template <class V> using Divided = like<V, typename DividesIn<sizeof(elem<V>)>::type>;
template <class V> JC_INLINE Divided<V> wide_of(V a) {
  if constexpr (sizeof(elem<V>) < 8) return cvt<elem<Divided<V>>>(a);
  else return bitcast<like<V, f64>>(V(a + fill<V>(0x4338000000000000))) - fill<like<V, f64>>(0x1.8p52);
}
template <class V> JC_INLINE V whole_of(Divided<V> a) {
  if constexpr (sizeof(elem<V>) < 8) return cvt<elem<V>>(a);
  else return bitcast<V>(a + fill<like<V, f64>>(0x1.8p52)) - fill<V>(0x4338000000000000);
}
template <class V> JC_INLINE bool divided(V a, V b, V &quotient, V &rest) {
  typedef Divided<V> F;
  if constexpr (lanes<V> == 1) return false;
  else {
    if constexpr (sizeof(elem<V>) == 8) {
      V half = fill<V>(i64(1) << 51);
      if (__builtin_expect(any(V(((a + half) | (b + half)) & ~(half + half - fill<V>(1)))), 0)) return false;
    }
    F x = wide_of(a), y = wide_of(b), q = trunc(F(x / y));
    auto zero = eq(b, fill<V>(0));
    quotient = select(zero, fill<V>(0), whole_of<V>(q));
    rest = select(zero, fill<V>(0), whole_of<V>(fma(F(-q), y, x)));
    return true;
  }
}
// Ints by a number D above 0 that stands in the source: multiplied and shifted. What is below 0 is
// rounded down as the complement of the complement's quotient.
// Bytes and shorts divide as 32 bits.
#define JC_BY(name, expr)                                                                     \
  template <i64 D, class V> JC_INLINE V name(V a) {                                           \
    typedef elem<V> T;                                                                        \
    if constexpr (sizeof(T) < 4) return cvt<T>(name<D>(cvt<i32>(a)));                         \
    else return expr;                                                                         \
  }
template <i64 D, class V> JC_INLINE V quotient_by(V a) {
  typedef elem<V> T;
  if constexpr (lanes<V> == 1) return a / T(D);
  else if constexpr (sizeof(T) < 8) return a / fill<V>(T(D));
  else {
    V r;
    JC_UNROLL
    for (int i = 0; i < lanes<V>; i++) r[i] = a[i] / T(D);
    return r;
  }
}
template <class V> JC_INLINE V below_0(V a) { return a >> (8 * (int)sizeof(elem<V>) - 1); }
JC_BY(trunc_div_by, quotient_by<D>(a))
JC_BY(floor_div_by, V(quotient_by<D>(V(a ^ below_0(a))) ^ below_0(a)))
JC_BY(fmod_by, V(a - quotient_by<D>(a) * fill<V>(T(D))))
JC_BY(mod_by, V(a - floor_div_by<D>(a) * fill<V>(T(D))))
#undef JC_BY
// Where the quotient is below 1 / epsilon it is one too large at most, and what is left is exact.
template <class V> JC_INLINE V fmod(V a, V b) {
  if constexpr (!is_float<elem<V>>) {
    V q, r;
    if (divided(a, b, q, r)) return r;
    return JC_EACH2(int_fmod);
  } else if constexpr (lanes<V> == 1) return fmod_(a, b);
  else {
    V zero = fill<V>(0), q = trunc(V(a / b)), r = fma(V(-q), b, a);
    r = select(ne(r, zero) & ne(lt(r, zero), lt(a, zero)), V(r + copysign(b, a)), r);
    auto exact = lt(abs(q), fill<V>(sizeof(elem<V>) == 4 ? elem<V>(0x1p22) : elem<V>(0x1p51))) & eq(r, r);
    if (__builtin_expect(all(exact), 1)) return copysign(r, a);
    return JC_EACH2(fmod_);
  }
}
template <class T> JC_INLINE T int_gcd(T a, T b) {  // Euclid's; not below 0, but for the least number
  while (b != 0) {
    T rest = int_fmod(a, b);
    a = b;
    b = rest;
  }
  return a < 0 ? T(-a) : a;
}
template <class V> JC_INLINE V gcd(V a, V b) { return JC_EACH2(int_gcd); }
template <class V> JC_INLINE V mod(V a, V b) {  // sign of the divisor, as Python and NumPy
  if constexpr (!is_float<elem<V>>) {
    V q, r, zero = fill<V>(0);
    if (divided(a, b, q, r)) return select(ne(r, zero) & ne(lt(r, zero), lt(b, zero)), V(r + b), r);
    return JC_EACH2(int_mod);
  } else {
    V r = fmod(a, b), zero = fill<V>(0);
    V moved = select(ne(lt(r, zero), lt(b, zero)), V(r + b), r);
    return select(eq(r, zero), copysign(zero, b), moved);
  }
}
template <class V> JC_INLINE V floor_div(V a, V b) {  // NumPy's npy_divmod
  if constexpr (!is_float<elem<V>>) {
    V q, r, zero = fill<V>(0);
    if (divided(a, b, q, r)) return select(ne(r, zero) & ne(lt(r, zero), lt(b, zero)), V(q - fill<V>(1)), q);
    return JC_EACH2(int_floor_div);
  } else {
    V zero = fill<V>(0), r = fmod(a, b), q = (a - r) / b;
    q = select(ne(r, zero) & ne(lt(r, zero), lt(b, zero)), V(q - fill<V>(1)), q);
    V f = floor(q);
    f = select(gt(V(q - f), fill<V>(elem<V>(0.5))), V(f + fill<V>(1)), f);
    f = select(eq(q, zero), copysign(zero, V(a / b)), f);
    return select(eq(b, zero), V(a / b), f);
  }
}
template <class V> JC_INLINE V trunc_div(V a, V b) {
  if constexpr (is_float<elem<V>>) return trunc(V(a / b));
  else {
    V q, r;
    if (divided(a, b, q, r)) return q;
    return JC_EACH2(int_trunc_div);
  }
}
template <class V> JC_INLINE V div(V a, V b) {
  if constexpr (is_float<elem<V>>) return a / b;
  else return trunc_div(a, b);
}
// Shifts: a count outside 0..bits-1 gives 0 (or the sign, for shr of signed), as NumPy.
template <class V> JC_INLINE V shl(V a, V b) {
  constexpr int B = 8 * sizeof(elem<V>);
  auto in = lt(bits(b), fill<uints<V>>(B));
  return select(in, V(a << select(in, b, fill<V>(0))), fill<V>(0));
}
template <class V> JC_INLINE V shr(V a, V b) {
  typedef elem<V> T;
  constexpr int B = 8 * sizeof(T);
  auto in = lt(bits(b), fill<uints<V>>(B));
  V beyond = T(-1) < T(0) ? V(a >> fill<V>(B - 1)) : fill<V>(0);
  return select(in, V(a >> select(in, b, fill<V>(0))), beyond);
}

template <class V> JC_INLINE V int_pow(V x, V n) {  // wraps; a negative power is 0 except of 1 and -1
  V zero = fill<V>(0), one = fill<V>(1), r = one, rest = select(lt(n, zero), V(n & one), n);
  auto gone = lt(n, zero) & ne(x, one) & ne(x, fill<V>(elem<V>(-1)));
  for (; any(ne(rest, zero)); rest = rest >> one, x = x * x) r = select(ne(V(rest & one), zero), V(r * x), r);
  return select(gone, zero, r);
}

// ---- monoids of the reductions ----------------------------------------------------------------
struct Sum { template <class V> static JC_INLINE V apply(V a, V b) { return a + b; } };
struct Prod { template <class V> static JC_INLINE V apply(V a, V b) { return a * b; } };
struct Min { template <class V> static JC_INLINE V apply(V a, V b) { return min(a, b); } };
struct Max { template <class V> static JC_INLINE V apply(V a, V b) { return max(a, b); } };
}  // namespace jc
#include "jitcap_elementary.h"
