// What a generated graph needs around its loops: entry ABI, errors, threads, Philox.
//
// Entry: JC_ENTRY int name(void **buffers, const double *scalars, void *arena), returning 0 or 1.
//   buffers  inputs, then outputs, in the plan's order; a host callback may stand in a slot too.
//   scalars  8-byte slots: floats as f64; ints as i64 bits, read by jc::as_i64(scalars[k]).
//   arena    64-byte aligned temporary memory; the 64 bytes before it are the error record.
// JC_MODULE stands once in every shared object: it defines what runtime/cpu.py looks up (jitcap_init,
// jitcap_call). All pointers in `buffers` are the caller's: inputs may be written (in-place updates).
#pragma once
#include "jitcap_call.h"
#include "jitcap_simd.h"

// A Python kernel called from compiled code; 0 where it has not done its work. An exception that is
// raised before its first statement, by a signal's handler, gives that, too.
typedef int (*JcHost)(long id, void *const *buffers);
inline bool jc_hosted(void *host, long id, void *const *buffers) {
  return !jc_interrupted() && ((JcHost)host)(id, buffers);
}
// What JcPack made of a matrix of `deep` rows, and where in that matrix a part of it begins: a column where
// a panel does. Null: nothing.
struct JcPanels {
  const void *at = nullptr;
  long deep = 0, row = 0, col = 0;
};
template <class T> struct JcView {  // a matrix of any strides
  const T *at;
  long row, col;
  JcPanels panels = {};  // of a right operand
};
// What becomes of a product, of which nothing else is kept: `run` gets one block after the other, each
// once it is whole. Its rows [i0, i1) count from `row` on (the first of a matrix of a batch), they lie ld
// apart in `tile`; `bytes`: what it does to an element, as plain traffic.
template <class T> struct JcAfter {
  void (*run)(const void *env, long i0, long i1, long j0, long j1, const T *tile, long ld);
  const void *env;
  long row, bytes;
};
template <class S, class T = S> using JcProduct = bool (*)(long m, long n, long k, JcView<S> a, JcView<S> b, T *c, long ldc, bool add, const JcAfter<T> *after);
template <class S> using JcPack = void (*)(long k, long lo, long hi, JcView<S> b, void *panels);  // columns [lo, hi)
template <class T> using JcGemm = void (*)(int, int, int, int, int, int, T, const T *, int, const T *, int, T, T *, int);
// LAPACK, whose arguments are pointers; the lengths of texts come last.
template <class T> using JcGesv = void (*)(const int *n, const int *k, T *a, const int *lda, int *pivots, T *b, const int *ldb, int *info);
template <class T> using JcGetrf = void (*)(const int *m, const int *n, T *a, const int *lda, int *pivots, int *info);
template <class T> using JcPotrf = void (*)(const char *half, const int *n, T *a, const int *lda, int *info, unsigned long);
template <class T> using JcPotrs = void (*)(const char *half, const int *n, const int *k, const T *a, const int *lda, T *b, const int *ldb, int *info, unsigned long);
struct JcApi {  // mirrored by runtime/support.py: Api
  JcProduct<float> product_f32;  // jitcap_brick.h, or null
  JcProduct<double> product_f64;
  JcProduct<jc::bf16, float> product_bf16;
  JcProduct<jc::f16, float> product_f16;
  JcPack<float> pack_f32;  // for each product
  JcPack<double> pack_f64;
  JcPack<jc::bf16> pack_bf16;
  JcPack<jc::f16> pack_f16;
  JcGemm<float> sgemm;  // cblas_sgemm, or null
  JcGemm<double> dgemm;
  JcGesv<float> sgesv;  // jitcap_linalg.h; or null, as the others of LAPACK
  JcGesv<double> dgesv;
  JcGetrf<float> sgetrf;
  JcGetrf<double> dgetrf;
  JcPotrf<float> spotrf;
  JcPotrf<double> dpotrf;
  JcPotrs<float> spotrs;
  JcPotrs<double> dpotrs;
  // jitcap_team.h: part(body, lo, hi) over pieces of [0, n); null: in the caller
  void (*run)(void (*part)(void *, long, long), void *body, long n, long grain, long pieces, int members);
  int (*member)();                   // number of the calling thread in its team, 0 for the caller
  int (*team)(double worth, int most);  // members for a loop that is worth so many
  int threads;      // team size for parallel loops, >= 1
};
extern "C" __attribute__((visibility("hidden"))) const JcApi *jc_api;
extern "C" __attribute__((visibility("hidden"))) const int jc_room;  // members that have scratch memory
#define JC_MODULE JC_MODULE_FOR(1 << 30)
#define JC_MODULE_FOR(room)                                                                    \
  const JcApi *jc_api;                                                                         \
  const int jc_room = room;                                                                    \
  JC_ENTRY void jitcap_init(const JcApi *api) { jc_api = api; }                                \
  JC_ENTRY PyObject_ *jitcap_call(PyObject_ *plan, PyObject_ *const *lists, long n) { return jc_call(plan, lists, n); }

namespace jc {
JC_INLINE i64 as_i64(f64 slot) { return bitcast<i64>(slot); }
// Pointers for a body: each a slot of `b`, or -1 - an offset into `work`.
inline void hand(void **q, const i64 *places, int count, void **b, char *work) {
  for (int i = 0; i < count; i++) q[i] = places[i] < 0 ? work - 1 - places[i] : (char *)b[places[i]];
}

// ---- errors -----------------------------------------------------------------------------------
enum { JC_OK = 0, JC_INDEX = 1, JC_HOST = 2 };
struct Error {  // 64 bytes, just before the arena; site: index into the artifact's list of sites
  i64 code, site, value, bound;
  i64 unused[4];
};
JC_INLINE Error *error_of(void *arena) { return (Error *)arena - 1; }
JC_NOINLINE inline void fail(void *arena, i64 code, i64 site, i64 value, i64 bound) {
  Error *e = error_of(arena);
  i64 none = 0;  // the first error wins; later ones of a parallel loop are dropped
  if (__atomic_compare_exchange_n(&e->code, &none, code, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    e->site = site;
    e->value = value;
    e->bound = bound;
  }
}
// The index, with negative ones counted from the end; out of range is recorded and 0 returned, so
// that the loop may go on safely; the entry ends with `return jc::error_of(arena)->code != 0;`.
JC_INLINE i64 checked(i64 index, i64 bound, void *arena, i64 site) {
  i64 i = index < 0 ? index + bound : index;
  if (__builtin_expect((u64)i >= (u64)bound, 0)) {
    fail(arena, JC_INDEX, site, index, bound);
    return 0;
  }
  return i;
}

JC_INLINE i64 clamped(i64 x, i64 lo, i64 hi) { return x < lo ? lo : x > hi ? hi : x; }

// True if an element of a matrix is NaN or infinity, or, with `both`, minus infinity. U: the bits of one,
// `inf`: those of infinity.
template <class U, U inf, bool both> JC_NOINLINE bool beyond(const void *at, i64 n0, i64 s0, i64 n1, i64 s1) {
  typedef vec<U, 64 / sizeof(U)> V;
  constexpr i64 W = lanes<V>;
  constexpr U least = ~(U(-1) >> 1) | inf;
  V found{};
  U rest = 0;
  if (s1 == 1 && s0 == n1) n1 *= n0, n0 = 1;
  for (i64 i = 0; i < n0; i++) {
    const U *p = (const U *)at + i * s0;
    i64 j = 0;
    for (; s1 == 1 && j + W <= n1; j += W) {
      V x;
      __builtin_memcpy(&x, p + j, sizeof x);
      found |= V((x & inf) == inf) & V(both ? V{} == V{} : x != least);
    }
    for (; j < n1; j++) rest |= (p[j * s1] & inf) == inf && (both || p[j * s1] != least);
  }
  for (i64 l = 0; l < W; l++) rest |= found[l];
  return rest;
}

// ---- threads ----------------------------------------------------------------------------------
JC_INLINE int threads() { return jc_api->threads < jc_room ? jc_api->threads : jc_room; }
JC_INLINE int member() { return jc_api->member ? jc_api->member() : 0; }
// parallel(n, grain, team, body): body(lo, hi) over [0, n) in about `per_member` pieces per member, in
// multiples of `grain`, taken as members get free: one that was put aside by another process holds up
// a quarter of its share, not all of it. No result may depend on the cut. Choose the team by bytes:
// team_for(bytes).
template <class F> JC_NOINLINE void part_of(void *body, long lo, long hi) {
  F f = *(F *)body;  // a copy that no store of the loop can alias
  f(i64(lo), i64(hi));
  fence();
}
template <class F> JC_INLINE void parallel(i64 n, i64 grain, int team, F body, i64 per_member = 4) {
  if (n <= 0) return;
  i64 blocks = (n + grain - 1) / grain, most = per_member * team;
  if (team <= 1 || !jc_api->run) part_of<F>(&body, 0, n);
  else jc_api->run(part_of<F>, &body, n, grain, blocks < most ? blocks : most, team);
}
// How many members are worth having: sharing a loop costs the caller 1 to 5 us, and a member's caches
// are cold. Below 128 KiB of traffic or half a million multiply-adds per member a loop stays serial.
JC_INLINE int team_of(f64 worth) { return worth < 2 || threads() < 2 || !jc_api->team ? 1 : jc_api->team(worth, threads()); }
JC_INLINE int team_for(i64 bytes) { return team_of(bytes * (1.0 / (128 << 10))); }
JC_INLINE int team_for_product(i64 m, i64 n, i64 k) { return team_of((f64)m * n * k * 2e-6); }

// ---- random: Philox4x32-10 (Salmon et al., SC'11), one counter per lane -----------------------
template <class U> JC_INLINE void mul_hilo(U a, u32 m, U *hi, U *lo) {
  constexpr int N = lanes<U>;
  if constexpr (N == 1) {
    u64 p = (u64)a * m;
    *hi = (u32)(p >> 32);
    *lo = (u32)p;
  } else {
    typedef vec<u64, N / 2> W;
    W x = bitcast<W>(a), even = (x & 0xffffffffu) * (u64)m, odd = (x >> 32) * (u64)m;
    *lo = a * m;
    *hi = bitcast<U>((even >> 32) | (odd & 0xffffffff00000000u));
  }
}
// philox(w, seed): w[0..3] is the counter on entry (u32 lanes) and the four random words on exit.
template <class U> JC_INLINE void philox(U *w, u64 seed) {
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
  for (int r = 0; r < 10; r++) {
    U h0, l0, h1, l1;
    mul_hilo(w[0], 0xD2511F53u, &h0, &l0);
    mul_hilo(w[2], 0xCD9E8D57u, &h1, &l1);
    U n0 = h1 ^ w[1] ^ k0, n2 = h0 ^ w[3] ^ k1;
    w[0] = n0; w[1] = l1; w[2] = n2; w[3] = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}
// The words of elements index + 0, 1, ... N-1 of the random op number `ordinal`.
template <int N> JC_INLINE void philox_at(vec<u32, N> *w, u64 seed, u64 ordinal, u64 index) {
  typedef vec<u32, N> U;
  w[0] = fill<U>((u32)index) + iota<u32, N>();
  U carry = select(lt(w[0], fill<U>((u32)index)), fill<U>(1), fill<U>(0));
  w[1] = fill<U>((u32)(index >> 32)) + carry;
  w[2] = fill<U>((u32)ordinal);
  w[3] = fill<U>((u32)(ordinal >> 32));
  philox(w, seed);
}
template <class U> JC_INLINE like<U, f32> uniform_f32(U w0) { return cvt<f32>(bitcast<like<U, i32>>(w0 >> 8)) * 0x1p-24f; }
template <class U> JC_INLINE like<U, f64> uniform_f64(U w0, U w1) {
  return cvt<f64>(bitcast<like<U, i64>>((cvt<u64>(w0) << 21) ^ (cvt<u64>(w1) >> 11))) * 0x1p-53;
}
}  // namespace jc
#include "jitcap_product.h"
