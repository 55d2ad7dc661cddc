// Vectors of the generated C++ kernels: types, memory access, masks, conversion, reduction.
//
// emit/cpp.py writes loops in this vocabulary; runtime/build.py compiles them. No STL and no
// <immintrin.h> (it costs 0.2 s per compile); everything is a GCC/Clang vector extension, plus
// compiler builtins where the extension has no word (fma, rounding, masked memory).
//
// Contract
//   vec<T,N>      N lanes of T; vec<T,1> is T itself. Every function below takes vectors or scalars
//                 and computes the same bits lane by lane, so tails in scalar code are exact.
//   mask<N>       the one boolean type: lanes of 0 or -1, combined with & | ^ ~. Of i32 (scalar: i32),
//                 of i64 where there are JC_W64 lanes (a comparison of f64 gives them, and a choice
//                 of f64 takes them: by way of i32 a logarithm costs twice as much), or of i8 where
//                 there are JC_W8 lanes.
//   storage       bool, bf16, f16 live in memory only: load gives mask / f32 / f32, store rounds
//                 (nearest even) back. Other element types load as vec<T,N>.
//   JC_W32, JC_W64  native lane counts for 4- and 8-byte elements. A loop that computes on any
//                 8-byte type should use JC_W64 lanes for everything; others JC_W32, or JC_W8 where
//                 all is masks and bytes.
// Flags: -ffp-contract=off (a*b+c rounds twice, as in eager; fma() is explicit), -fwrapv,
// -fno-strict-aliasing, never -ffast-math.
#pragma once

#ifndef JC_BYTES
#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#define JC_BYTES 64
#elif defined(__AVX2__) && defined(__FMA__)
#define JC_BYTES 32
#else
#define JC_BYTES 16
#endif
#endif
#define JC_W8 JC_BYTES
#define JC_W32 (JC_BYTES / 4)
#define JC_W64 (JC_BYTES / 8)
#define JC_AVX512 (JC_BYTES == 64)
// GCC's names of machine instructions; Clang spells many otherwise and gets portable forms.
#if defined(__x86_64__) && !defined(__clang__)
#define JC_X86 1
#else
#define JC_X86 0
#endif
#define JC_INLINE inline __attribute__((always_inline))
#define JC_NOINLINE __attribute__((noinline))
#define JC_ENTRY extern "C" __attribute__((visibility("default")))
// For the entry of a graph: straight-line calls, where optimising takes half of the compile time and
// gains nothing. What is called keeps its own level.
#if defined(__clang__)
#define JC_STRAIGHT __attribute__((optnone, noinline))
#else
#define JC_STRAIGHT __attribute__((optimize("O0")))
#endif
#if defined(__clang__)
#define JC_UNROLL _Pragma("clang loop unroll(full)")
#define __builtin_shuffle jc::shuffled
#else
#define JC_UNROLL _Pragma("GCC unroll 64")
#endif

namespace jc {

typedef float f32;
typedef double f64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
struct __attribute__((visibility("default"))) bf16 { u16 bits; };  // (symbols of templates over them are seen)
struct __attribute__((visibility("default"))) f16 { u16 bits; };
static_assert(sizeof(i64) == 8, "jitcap kernels need an LP64 platform");

template <class T, int N> struct VecOf { typedef T type __attribute__((vector_size(sizeof(T) * N))); };
template <class T> struct VecOf<T, 1> { typedef T type; };
template <int N> struct MaskOf { typedef i32 type; };
template <> struct MaskOf<JC_W8> { typedef i8 type; };
template <> struct MaskOf<JC_W64> { typedef i64 type; };
template <int N> using mask_lane = typename MaskOf<N>::type;
template <int N> struct VecOf<bool, N> { typedef typename VecOf<mask_lane<N>, N>::type type; };
template <> struct VecOf<bool, 1> { typedef i32 type; };
#define JC_STORAGE(T, R)                                                         \
  template <int N> struct VecOf<T, N> { typedef typename VecOf<R, N>::type type; }; \
  template <> struct VecOf<T, 1> { typedef R type; };
JC_STORAGE(bf16, f32) JC_STORAGE(f16, f32)
#undef JC_STORAGE
template <class T, int N> using vec = typename VecOf<T, N>::type;
template <int N> using mask = vec<bool, N>;

// elem<V>: lane type of V; lanes<V>: lane count.
template <class V> struct Traits {
  template <class T> struct Strip { typedef T type; };
  template <class T> struct Strip<T &> { typedef T type; };
  template <class T> struct Strip<const T &> { typedef T type; };
  typedef typename Strip<decltype((*(V *)0)[0])>::type elem;
  static constexpr int n = sizeof(V) / sizeof(elem);
};
#define JC_SCALAR(T) template <> struct Traits<T> { typedef T elem; static constexpr int n = 1; };
JC_SCALAR(f32) JC_SCALAR(f64) JC_SCALAR(i8) JC_SCALAR(i16) JC_SCALAR(i32) JC_SCALAR(i64)
JC_SCALAR(u8) JC_SCALAR(u16) JC_SCALAR(u32) JC_SCALAR(u64) JC_SCALAR(bool)
#undef JC_SCALAR
template <class V> using elem = typename Traits<V>::elem;
template <class V> constexpr int lanes = Traits<V>::n;
template <class V, class T> using like = vec<T, lanes<V>>;  // as many lanes as V, of T

template <int Bytes> struct IntOf;
template <> struct IntOf<1> { typedef i8 s; typedef u8 u; };
template <> struct IntOf<2> { typedef i16 s; typedef u16 u; };
template <> struct IntOf<4> { typedef i32 s; typedef u32 u; };
template <> struct IntOf<8> { typedef i64 s; typedef u64 u; };
template <class V> using ints = like<V, typename IntOf<sizeof(elem<V>)>::s>;   // same width, signed
template <class V> using uints = like<V, typename IntOf<sizeof(elem<V>)>::u>;  // same width, unsigned
template <class T> constexpr bool is_float = false;
template <> constexpr bool is_float<f32> = true;
template <> constexpr bool is_float<f64> = true;
template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;

// ---- bits, broadcast, lanes -------------------------------------------------------------------
template <class To, class From> JC_INLINE To bitcast(From x) {
  static_assert(sizeof(To) == sizeof(From), "bitcast keeps the size");
  To r;
  __builtin_memcpy(&r, &x, sizeof(To));
  return r;
}
template <class T, int N> JC_INLINE vec<T, N> splat(elem<vec<T, N>> x) {
  if constexpr (N == 1) return x;
  else return x - vec<T, N>{};  // one broadcast; filling lane by lane becomes N masked ones
}
template <class V> JC_INLINE V fill(elem<V> x) { return splat<elem<V>, lanes<V>>(x); }
template <class T, int N> JC_INLINE vec<T, N> iota() {  // 0, 1, 2, ...
  if constexpr (N == 1) return T(0);
  else {
    vec<T, N> r;
    JC_UNROLL
    for (int i = 0; i < N; i++) r[i] = T(i);
    return r;
  }
}
template <class V> JC_INLINE elem<V> lane(V v, int i) {
  if constexpr (lanes<V> == 1) return v;
  else return v[i];
}

#if defined(__clang__)  // GCC's __builtin_shuffle: lane i is element index[i] of a, or of a and b in a row
template <class V, class I> JC_INLINE V shuffled(V a, V b, I index) {
  V r;
  JC_UNROLL
  for (int i = 0; i < lanes<V>; i++) r[i] = index[i] < lanes<V> ? a[index[i]] : b[index[i] - lanes<V>];
  return r;
}
template <class V, class I> JC_INLINE V shuffled(V a, I index) { return shuffled(a, a, index); }
#endif
// A lane-by-lane call of a scalar function: what has no vector form.
template <class V, class F> JC_NOINLINE V each(V a, F f) {
  if constexpr (lanes<V> == 1) return f(a);
  else {
    elem<V> x[lanes<V>];
    __builtin_memcpy(x, &a, sizeof a);
    for (int i = 0; i < lanes<V>; i++) x[i] = f(x[i]);
    __builtin_memcpy(&a, x, sizeof a);
    return a;
  }
}
template <class V, class F> JC_NOINLINE V each(V a, V b, F f) {
  if constexpr (lanes<V> == 1) return f(a, b);
  else {
    elem<V> x[lanes<V>], y[lanes<V>];
    __builtin_memcpy(x, &a, sizeof a);
    __builtin_memcpy(y, &b, sizeof b);
    for (int i = 0; i < lanes<V>; i++) x[i] = f(x[i], y[i]);
    __builtin_memcpy(&a, x, sizeof a);
    return a;
  }
}

// ---- conversion -------------------------------------------------------------------------------
// cvt<T>(v): value conversion as NumPy's astype. Float to a narrow int goes through i32 (wraps);
// float to u32 through i64. Out-of-range results are the machine's, as they are in NumPy.
//
// Between bytes (or shorts) and lanes of 4 or 8 bytes a conversion of vectors goes lane by lane; the
// machine has an instruction, or three, for the widths that kernels use.
#if defined(__AVX2__) && JC_X86
#define JC_WIDTHS 1
typedef char Bytes16 __attribute__((vector_size(16)));
typedef short Shorts8 __attribute__((vector_size(16)));
typedef int Ints16 __attribute__((vector_size(64)));
template <class X> JC_INLINE vec<i64, 2> in_low(X v) {
  if constexpr (sizeof(X) == 16) return bitcast<vec<i64, 2>>(v);
  else if constexpr (sizeof(X) == 8) return vec<i64, 2>{bitcast<i64>(v), 0};
  else return vec<i64, 2>{(i64)bitcast<u32>(v), 0};
}
template <class S, class T, int N> constexpr bool widens =
    !is_float<S> && !is_float<T> &&
    ((sizeof(S) == 1 && sizeof(T) == 4 && (N == 4 || N == 8 || (JC_AVX512 && N == 16))) ||
     (sizeof(S) <= 2 && sizeof(T) == 8 && N == 4));
template <class S, class T, int N> constexpr bool narrows =
    !is_float<S> && sizeof(S) == 4 && sizeof(T) == 1 && (N == 4 || N == 8);
template <class S, class T, int N> constexpr bool by_i32 =
    !is_float<S> && !is_float<T> && ((sizeof(S) <= 2 && sizeof(T) == 8 && N == 8) ||
                                     (sizeof(S) == 8 && sizeof(T) == 1 && N == 4));
template <class T, class V> JC_INLINE like<V, T> widened(V v) {
  constexpr bool Signed = elem<V>(-1) < elem<V>(0);
  auto x = in_low(v);
  auto bytes = bitcast<Bytes16>(x);
  auto shorts = bitcast<Shorts8>(x);
#define JC_EXTEND(what, from) bitcast<like<V, T>>(Signed ? __builtin_ia32_pmovsx##what(from) : __builtin_ia32_pmovzx##what(from))
#if JC_AVX512
  if constexpr (lanes<V> == 16)
    return bitcast<like<V, T>>(Signed ? __builtin_ia32_pmovsxbd512_mask(bytes, Ints16{}, -1)
                                      : __builtin_ia32_pmovzxbd512_mask(bytes, Ints16{}, -1));
  else
#endif
  if constexpr (sizeof(elem<V>) == 2) return JC_EXTEND(wq256, shorts);
  else if constexpr (sizeof(T) == 8) return JC_EXTEND(bq256, bytes);
  else if constexpr (lanes<V> == 8) return JC_EXTEND(bd256, bytes);
  else return JC_EXTEND(bd128, bytes);
#undef JC_EXTEND
}
template <class T, class V> JC_INLINE like<V, T> narrowed(V v) {
  V low = v & 255;
  vec<i32, 4> a, b;
  if constexpr (lanes<V> == 8) {
    struct Halves { vec<i32, 4> a, b; } h = bitcast<Halves>(low);
    a = h.a, b = h.b;
  } else a = b = bitcast<vec<i32, 4>>(low);
  auto words = __builtin_ia32_packssdw128(a, b);
  auto bytes = bitcast<vec<i64, 2>>(__builtin_ia32_packuswb128(words, words));
  if constexpr (lanes<V> == 8) return bitcast<like<V, T>>(i64(bytes[0]));
  else return bitcast<like<V, T>>(i32(bytes[0]));
}
#else
#define JC_WIDTHS 0
#endif
template <class T, class V> JC_INLINE like<V, T> cvt(V v) {
  typedef elem<V> S;
#if JC_WIDTHS
#if JC_AVX512
  if constexpr (!is_float<S> && sizeof(S) == 4 && sizeof(T) == 1 && lanes<V> == 16)
    return bitcast<like<V, T>>(__builtin_ia32_pmovdb512_mask(bitcast<Ints16>(v), Bytes16{}, -1));
  else
#endif
  if constexpr (widens<S, T, lanes<V>>) return widened<T>(v);
  else if constexpr (narrows<S, T, lanes<V>>) return narrowed<T>(v);
  else if constexpr (by_i32<S, T, lanes<V>>) return cvt<T>(cvt<i32>(v));
  else if constexpr (!is_float<S> && sizeof(S) == 1 && is_float<T> && widens<S, i32, lanes<V>>)
    return __builtin_convertvector(cvt<i32>(v), like<V, T>);
  else
#endif
  if constexpr (same<S, T>) return v;
  else if constexpr (is_float<S> && !is_float<T> && sizeof(T) < 4) return cvt<T>(cvt<i32>(v));
  else if constexpr (is_float<S> && same<T, u32>) return cvt<T>(cvt<i64>(v));
  else if constexpr (lanes<V> == 1) return (T)v;
  else return __builtin_convertvector(v, like<V, T>);
}
// select(m, a, b): lane-wise m ? a : b, for any element type.
template <int N, class V> JC_INLINE V select_(mask<N> m, V a, V b) {
  if constexpr (N == 1) return m ? a : b;
  else return cvt<typename IntOf<sizeof(elem<V>)>::s>(m) ? a : b;
}
template <class V> JC_INLINE V select(mask<lanes<V>> m, V a, V b) { return select_<lanes<V>, V>(m, a, b); }
template <class T, class M> JC_INLINE like<M, T> from_mask(M m) {  // mask -> 0 or 1 of type T
  return select(m, fill<like<M, T>>(T(1)), fill<like<M, T>>(T(0)));
}

#define JC_COMPARE(name, op)                                                                 \
  template <class V> JC_INLINE mask<lanes<V>> name(V a, V b) {                               \
    if constexpr (lanes<V> == 1) return -(i32)(a op b);                                      \
    else return cvt<mask_lane<lanes<V>>>((ints<V>)(a op b));                                 \
  }
JC_COMPARE(lt, <) JC_COMPARE(le, <=) JC_COMPARE(gt, >) JC_COMPARE(ge, >=)
JC_COMPARE(eq, ==) JC_COMPARE(ne, !=)
#undef JC_COMPARE
template <class V> JC_INLINE mask<lanes<V>> to_bool(V a) { return ne(a, fill<V>(0)); }

// f32 <-> 16-bit floats, on the bit patterns (u16 lanes).
template <class U> JC_INLINE like<U, f32> bf16_to_f32(U h) { return bitcast<like<U, f32>>(cvt<u32>(h) << 16); }
template <class V> JC_INLINE V round_bf16(V v) {
  typedef like<V, u32> U;
  U x = bitcast<U>(v);
  U rounded = (x + 0x7fffu + ((x >> 16) & 1u)) & 0xffff0000u;
  U nan = (x & 0x80000000u) | 0x7fc00000u;
  return bitcast<V>(select(ne(v, v), nan, rounded));
}
template <class V> JC_INLINE like<V, u16> f32_to_bf16(V v) {
  return cvt<u16>(bitcast<like<V, u32>>(round_bf16(v)) >> 16);
}
template <class U> JC_INLINE like<U, f32> f16_to_f32(U h) {
#if defined(__F16C__) && JC_X86
  if constexpr (lanes<U> == 8) return __builtin_ia32_vcvtph2ps256(bitcast<vec<i16, 8>>(h));
#if JC_AVX512
  if constexpr (lanes<U> == 16)
    return __builtin_ia32_vcvtph2ps512_mask(bitcast<vec<i16, 16>>(h), vec<f32, 16>{}, -1, 4);
#endif
#endif
  typedef like<U, u32> W;
  typedef like<U, f32> F;
  W w = cvt<u32>(h), sign = (w & 0x8000u) << 16, body = w & 0x7fffu;
  W normal = (body << 13) + (112u << 23);
  W special = (body << 13) | 0x7f800000u;
  W quiet = special | select(gt(body, fill<W>(0x7c00u)), fill<W>(0x400000u), fill<W>(0u));
  F small = cvt<f32>(bitcast<like<U, i32>>(body)) * 0x1p-24f;  // denormals are exact
  W r = select(ge(body, fill<W>(0x7c00u)), quiet, normal);
  r = select(lt(body, fill<W>(0x400u)), bitcast<W>(small), r);
  return bitcast<F>(r | sign);
}
template <class V> JC_INLINE like<V, u16> f32_to_f16(V v) {
#if defined(__F16C__) && JC_X86
  if constexpr (lanes<V> == 8) return bitcast<vec<u16, 8>>(__builtin_ia32_vcvtps2ph256(v, 0));
#if JC_AVX512
  if constexpr (lanes<V> == 16)
    return bitcast<vec<u16, 16>>(__builtin_ia32_vcvtps2ph512_mask(v, 0, vec<i16, 16>{}, -1));
#endif
#endif
  typedef like<V, u32> W;
  W x = bitcast<W>(v), sign = (x >> 16) & 0x8000u, a = x & 0x7fffffffu;
  W normal = (a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13;
  // A denormal result: adding 0.5 leaves the rounded mantissa in the low bits.
  W small = bitcast<W>(bitcast<V>(a) + 0.5f) - 0x3f000000u;
  W nan = 0x7e00u | ((a >> 13) & 0x3ffu);
  W r = select(lt(a, fill<W>(113u << 23)), small, normal);
  r = select(ge(a, fill<W>(0x477ff000u)), fill<W>(0x7c00u), r);
  r = select(gt(a, fill<W>(0x7f800000u)), nan, r);
  return cvt<u16>(r | sign);
}
template <class V> JC_INLINE V round_f16(V v) { return f16_to_f32(f32_to_f16(v)); }

// ---- memory -----------------------------------------------------------------------------------
// load<N>(p) and store(p, v) need no alignment. load_n / store_n touch only the first n < N
// elements; the other lanes of load_n are 0.
template <class T, int N> struct Unaligned {
  typedef T type __attribute__((vector_size(sizeof(T) * N), aligned(1), may_alias));
};
template <class T> struct Unaligned<T, 1> { typedef T type __attribute__((aligned(1), may_alias)); };
template <int N, class T> JC_INLINE vec<T, N> load(const T *p) { return *(const typename Unaligned<T, N>::type *)p; }
template <int N> JC_INLINE mask<N> load(const bool *p) {
  return to_bool(cvt<mask_lane<N>>(*(const typename Unaligned<u8, N>::type *)p));
}
template <int N> JC_INLINE vec<f32, N> load(const bf16 *p) { return bf16_to_f32(load<N>((const u16 *)p)); }
template <int N> JC_INLINE vec<f32, N> load(const f16 *p) { return f16_to_f32(load<N>((const u16 *)p)); }

template <class T, class V> JC_INLINE void store(T *p, V v) {
  *(typename Unaligned<T, lanes<V>>::type *)p = v;
}
template <class M> JC_INLINE void store(bool *p, M m) {
  store((i8 *)p, cvt<i8>(m & 1));
}
template <class V> JC_INLINE void store(bf16 *p, V v) { store((u16 *)p, f32_to_bf16(v)); }
template <class V> JC_INLINE void store(f16 *p, V v) { store((u16 *)p, f32_to_f16(v)); }

// store_stream(p, v): a store past the caches, for large results nobody reads soon: the line is not
// fetched first (16 Mi-element GELU: 16 ms -> 7 ms). Falls back to store where p is not aligned to
// the vector. Call fence() before another thread may read; jc::parallel does.
JC_INLINE void fence() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}
template <class X> JC_INLINE bool stream_bits(void *p, X x) {
#if JC_X86
  constexpr int Bytes = sizeof(X);
  typedef long long L __attribute__((vector_size(Bytes < 16 ? 16 : Bytes)));
  if ((u64)p % Bytes) return false;
#if JC_AVX512
  if constexpr (Bytes == 64) return __builtin_ia32_movntdq512((L *)p, bitcast<L>(x)), true;
#endif
#if defined(__AVX__)
  if constexpr (Bytes == 32) return __builtin_ia32_movntdq256((L *)p, bitcast<L>(x)), true;
#endif
  if constexpr (Bytes == 16) return __builtin_ia32_movntdq((L *)p, bitcast<L>(x)), true;
#endif
  return false;
}
template <class T, class V> JC_INLINE void store_stream(T *p, V v) {
  bool done = false;
  if constexpr (lanes<V> == 1) {
  } else if constexpr (same<T, bf16>) done = stream_bits(p, f32_to_bf16(v));
  else if constexpr (same<T, f16>) done = stream_bits(p, f32_to_f16(v));
  else if constexpr (!same<T, bool>) done = stream_bits(p, v);
  if (!done) store(p, v);
}

// Masked memory by AVX-512 builtins where one fits the element size and lane count; a copy loop
// through the stack elsewhere.
template <int Bytes, int N> struct Masked { static constexpr bool native = false; };
#if JC_AVX512 && JC_X86
#define JC_MASKED(Bytes, N, T, K, load_, store_)                                               \
  template <> struct Masked<Bytes, N> {                                                        \
    static constexpr bool native = true;                                                       \
    typedef T V __attribute__((vector_size(Bytes * N)));                                       \
    static JC_INLINE V load(const void *p, int n) {                                            \
      return (V)__builtin_ia32_##load_((const T *)p, V{}, (K)((1ull << n) - 1));               \
    }                                                                                          \
    static JC_INLINE void store(void *p, V v, int n) {                                         \
      __builtin_ia32_##store_((T *)p, v, (K)((1ull << n) - 1));                                \
    }                                                                                          \
  };
JC_MASKED(4, 16, int, u16, loaddqusi512_mask, storedqusi512_mask)
JC_MASKED(4, 8, int, u8, loaddqusi256_mask, storedqusi256_mask)
JC_MASKED(8, 8, long long, u8, loaddqudi512_mask, storedqudi512_mask)
JC_MASKED(2, 16, short, u16, loaddquhi256_mask, storedquhi256_mask)
JC_MASKED(2, 8, short, u8, loaddquhi128_mask, storedquhi128_mask)
JC_MASKED(1, 16, char, u16, loaddquqi128_mask, storedquqi128_mask)
#undef JC_MASKED
#endif

template <int N, class T> JC_INLINE vec<T, N> load_n_(const T *p, int n) {
  typedef Masked<sizeof(T), N> M;
  if constexpr (N == 1) return n > 0 ? *p : T(0);
  else if constexpr (M::native) return bitcast<vec<T, N>>(M::load(p, n));
  else {
    T x[N] = {};
    for (int i = 0; i < n; i++) x[i] = p[i];
    return load<N>((const T *)x);
  }
}
template <class T, class V> JC_INLINE void store_n_(T *p, V v, int n) {
  constexpr int N = lanes<V>;
  typedef Masked<sizeof(T), N> M;
  if constexpr (N == 1) { if (n > 0) *p = v; }
  else if constexpr (M::native) M::store(p, bitcast<typename M::V>(v), n);
  else {
    T x[N];
    store((T *)x, v);
    for (int i = 0; i < n; i++) p[i] = x[i];
  }
}
template <int N, class T> JC_INLINE vec<T, N> load_n(const T *p, int n) { return load_n_<N>(p, n); }
template <int N> JC_INLINE mask<N> load_n(const bool *p, int n) { return to_bool(cvt<mask_lane<N>>(load_n_<N>((const u8 *)p, n))); }
template <int N> JC_INLINE vec<f32, N> load_n(const bf16 *p, int n) { return bf16_to_f32(load_n_<N>((const u16 *)p, n)); }
template <int N> JC_INLINE vec<f32, N> load_n(const f16 *p, int n) { return f16_to_f32(load_n_<N>((const u16 *)p, n)); }
template <class T, class V> JC_INLINE void store_n(T *p, V v, int n) { store_n_(p, v, n); }
template <class M> JC_INLINE void store_n(bool *p, M m, int n) { store_n_((i8 *)p, cvt<i8>(m & 1), n); }
template <class V> JC_INLINE void store_n(bf16 *p, V v, int n) { store_n_((u16 *)p, f32_to_bf16(v), n); }
template <class V> JC_INLINE void store_n(f16 *p, V v, int n) { store_n_((u16 *)p, f32_to_f16(v), n); }

// strided<N>(p, step, n): p[0], p[step], ...; lanes from n on are not read. store_strided is the reverse.
template <class T> struct Compute { typedef T type; static JC_INLINE T raw(const T *p) { return *p; } };
template <> struct Compute<bool> { typedef u8 type; static JC_INLINE u8 raw(const bool *p) { return *(const u8 *)p; } };
template <> struct Compute<bf16> { typedef u16 type; static JC_INLINE u16 raw(const bf16 *p) { return p->bits; } };
template <> struct Compute<f16> { typedef u16 type; static JC_INLINE u16 raw(const f16 *p) { return p->bits; } };
template <int N, class T> JC_INLINE auto strided(const T *p, i64 step, int n = N) {
  typedef typename Compute<T>::type R;
  if constexpr (N == 1) return load<1>(p);
  else {
    R x[N];
    if (n >= N) {
      JC_UNROLL
      for (int i = 0; i < N; i++) x[i] = Compute<T>::raw(p + i * step);
    } else
      for (int i = 0; i < N; i++) x[i] = i < n ? Compute<T>::raw(p + i * step) : R(0);
    return load<N>((const T *)x);
  }
}
template <class T, class V> JC_INLINE void store_strided(T *p, i64 step, V v, int n = lanes<V>) {
  if constexpr (lanes<V> == 1) { if (n > 0) store(p, v); }
  else {
    T x[lanes<V>];
    store((T *)x, v);
    for (int i = 0; i < n; i++) p[i * step] = x[i];
  }
}

// ---- reduction --------------------------------------------------------------------------------
// reduce<Op>(v): lanes folded in halves, (v[i] op v[i + N/2]), then quarters, ...: one fixed order.
// Op has a static apply(a, b). The monoids and their identities are in jitcap_math.h.
template <class Op, class V> JC_INLINE elem<V> reduce(V v) {
  constexpr int N = lanes<V>;
  if constexpr (N == 1) return v;
  else {
    typedef vec<elem<V>, N / 2> H;
    struct Halves { H lo, hi; } h = bitcast<Halves>(v);
    return reduce<Op>(Op::apply(h.lo, h.hi));
  }
}
// keep(v, n, identity): lanes from n on replaced, so that a tail can be folded in.
template <class V> JC_INLINE V keep(V v, int n, elem<V> identity) {
  typedef mask_lane<lanes<V>> I;
  return select(lt(iota<I, lanes<V>>(), splat<I, lanes<V>>(n)), v, fill<V>(identity));
}
struct Or { template <class V> static JC_INLINE V apply(V a, V b) { return a | b; } };
struct And { template <class V> static JC_INLINE V apply(V a, V b) { return a & b; } };
template <class M> JC_INLINE bool any(M m) {
#if defined(__AVX__) && JC_X86
  if constexpr (sizeof(M) == 64) {
    typedef vec<elem<M>, lanes<M> / 2> H;
    struct Halves { H lo, hi; } h = bitcast<Halves>(m);
    return any(h.lo | h.hi);
  } else if constexpr (sizeof(M) == 32) return !__builtin_ia32_ptestz256(bitcast<vec<long long, 4>>(m), bitcast<vec<long long, 4>>(m));
  else if constexpr (sizeof(M) == 16) return !__builtin_ia32_ptestz128(bitcast<vec<long long, 2>>(m), bitcast<vec<long long, 2>>(m));
  else
#endif
  return reduce<Or>(m) != 0;
}
template <class M> JC_INLINE bool all(M m) { return !any(M(~m)); }
}  // namespace jc
