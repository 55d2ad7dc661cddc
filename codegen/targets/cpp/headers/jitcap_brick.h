// The brick: a register-tiled kernel of matrix products, and products of any layout made of it.
//
// C[m,n] (+)= A[m,k] B[k,n]. A brick computes up to M rows by V vectors of C in registers, from M rows
// of A and W = V * N columns of B (`Panel`s) over a depth k, one fma per element and step, in the order
// of k. Panels lie packed ([k][M] and [k][W]; turned, padded with zeros) or, where that would cost more
// than it gains, where the program has them.
//
// A product is cut as in Goto and van de Geijn, "Anatomy of high-performance matrix multiplication"
// (TOMS 2008): slabs of up to DEPTH along k, in which all members of the team share the packed panels
// of one operand (of the longer side of C, the other one's are cut among them), and each keeps a block
// of its own panels in the second-level cache. Which panels are packed and where k is cut depends on
// the shape alone, so that results do not depend on the number of threads.
//
// Operands of 16 bits are widened while they are packed; or, where the processor sums products of pairs
// of bfloat16 (vdpbf16ps), packed as such pairs: two steps of k in each element of a panel.
//
// With a `JcAfter` the sums of a block of C are made in a tile that stays in the second-level cache, over
// all of k, and C itself is not written: the panels of all slabs are packed at once.
//
// Where both operands lie along k and C is a few rows or columns, nothing is packed: `dots` sums
// vectors along k. Nor is it in tiny products.
#pragma once
#include <pthread.h>
#include <stdlib.h>
#include "jitcap_tile.h"

namespace jc {
// P: the elements of a panel (f32, f64; u32: a pair of bf16). S: those of an operand.
template <class P> struct SumOf { typedef P type; };
template <> struct SumOf<u32> { typedef f32 type; };
template <class P> using sum_of = typename SumOf<P>::type;
template <class S> struct PanelOf { typedef elem<vec<S, JC_W32>> type; };
template <> struct PanelOf<f64> { typedef f64 type; };
#if defined(__AVX512BF16__) && JC_AVX512
template <> struct PanelOf<bf16> { typedef u32 type; };
JC_INLINE vec<f32, 16> fma(vec<u32, 16> a, vec<u32, 16> b, vec<f32, 16> c) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));  // compilers disagree about the builtin's types
  return c;
}
#endif
template <class S> using panel_of = typename PanelOf<S>::type;
template <class S> constexpr bool in_pairs = same<panel_of<S>, u32>;
template <class S> JC_INLINE i64 steps_of(i64 k) { return in_pairs<S> ? (k + 1) / 2 : k; }  // of a panel

template <class P> struct Tile {  // 28 of 32 registers hold sums (of 16: 12)
  static constexpr int N = native_lanes<P>, V = 2, W = V * N, M = JC_AVX512 ? 14 : 6;
};
template <class T> constexpr i64 DEPTH = 1536 / sizeof(T);  // of a slab
constexpr i64 SHARED = 2048, BLOCK = 256;  // lanes: of its shared side; of a block
constexpr i64 APART = 128 << 10;  // bytes up to which each member packs the shared side for itself
constexpr i64 CACHED = 64 << 10;  // bytes of an operand that stays near, packed or not
constexpr i64 LINES = 2048;       // bytes: rows so far apart, or a multiple, fall on the same cache sets

JC_INLINE i64 smaller(i64 a, i64 b) { return a < b ? a : b; }
JC_INLINE constexpr i64 up(i64 n, i64 to) { return (n + to - 1) / to * to; }

// ---- packing ----------------------------------------------------------------------------------
// N elements of a panel from the first n elements along k (0 beyond), or from n lanes that lie side by
// side; one element of any lane.
template <class S> JC_INLINE auto from_along(const S *x, i64 n) {
  constexpr int N = native_lanes<panel_of<S>>;
  if constexpr (in_pairs<S>) {
    if (n >= 2 * N) return bitcast<vec<u32, N>>(load<2 * N>((const u16 *)x));
    vec<u32, N> low = cvt<u32>(load_n<N>((const u16 *)x, n < N ? int(n) : N));
    vec<u32, N> high = cvt<u32>(load_n<N>((const u16 *)x + N, n > N ? int(n - N) : 0));
    vec<u16, 2 * N> both;
    vec<u16, N> parts[2] = {cvt<u16>(low), cvt<u16>(high)};
    __builtin_memcpy(&both, parts, sizeof both);
    return bitcast<vec<u32, N>>(both);
  } else return n >= N ? load<N>(x) : load_n<N>(x, int(n));
}
template <class S> JC_INLINE auto from_across(const S *x, i64 col, bool second, int n) {
  constexpr int N = native_lanes<panel_of<S>>;
  auto some = [=](auto *p) { return n == N ? load<N>(p) : load_n<N>(p, n); };
  if constexpr (in_pairs<S>) {
    vec<u32, N> even = cvt<u32>(some((const u16 *)x));
    return second ? even | cvt<u32>(some((const u16 *)x + col)) << 16 : even;
  } else return some(x);
}
template <class S> JC_INLINE panel_of<S> from_one(const S *x, i64 col, bool second) {
  if constexpr (in_pairs<S>) return x->bits | (second ? (u32)x[col].bits << 16 : 0);
  else return load<1>(x);
}
// A whole vector is stored even where W is no multiple of its lanes: the next p overwrites what is too
// much, and `room`, the elements of a panel, has space behind the last.
template <class P, int W> JC_INLINE i64 room(i64 steps) { return up(W * steps + (W % Tile<P>::N ? Tile<P>::N : 0), Tile<P>::N); }
// Lanes that lie side by side, as many panels as they fill, `each` elements apart: a row of all of them
// at a time, as memory likes it.
template <class S, int W> JC_NOINLINE void pack_rows(i64 live, i64 k, const S *x, i64 col, panel_of<S> *panel, i64 each) {
  constexpr int N = Tile<panel_of<S>>::N, E = in_pairs<S> ? 2 : 1;  // elements of S in one of the panel
  for (i64 p = 0; p < steps_of<S>(k); p++) {
    const S *from = x + E * p * col;
    auto *to = panel + p * W;
    for (i64 left = live; left > 0; left -= W, from += W, to += each)
      JC_UNROLL
      for (int c = 0; c < W; c += N) {  // what lies beyond W is of the next panel, and is overwritten
        int n = left - c >= N ? N : left > c ? int(left - c) : 0;
        store(to + c, from_across(from + c, col, E * p + 1 < k, n));
      }
  }
}
// panel[p * W + i] = x[i * row + p * col] for p < k, i < live; 0 for live <= i < W.
template <class S, int W> JC_NOINLINE void pack(i64 live, i64 k, const S *x, i64 row, i64 col, panel_of<S> *panel) {
  typedef panel_of<S> P;
  constexpr int N = Tile<P>::N, E = in_pairs<S> ? 2 : 1;
  typedef vec<P, N> V;
  i64 steps = steps_of<S>(k);
  if (live > W) live = W;
  if (row == 1) {
    pack_rows<S, W>(live, k, x, col, panel, 0);
  } else if (col == 1) {
    for (i64 p = 0; p < steps; p += N) {
      i64 depth = steps - p;
      JC_UNROLL
      for (int c = 0; c < W; c += N) {
        V r[N];
        JC_UNROLL
        for (int i = 0; i < N; i++) r[i] = c + i < live ? from_along(x + (c + i) * row + E * p, k - E * p) : V{};
        transpose<N>(r);
        if (depth >= N) {
          JC_UNROLL
          for (int i = 0; i < N; i++) {
            if (c + N <= W) store(panel + (p + i) * W + c, r[i]);
            else store_n(panel + (p + i) * W + c, r[i], W - c);
          }
        } else
          for (int i = 0; i < depth; i++) store_n(panel + (p + i) * W + c, r[i], W - c < N ? W - c : N);
      }
    }
  } else
    for (i64 p = 0; p < steps; p++)
      for (i64 i = 0; i < W; i++) panel[p * W + i] = i < live ? from_one(x + i * row + E * p * col, col, E * p + 1 < k) : P(0);
}

// ---- the brick --------------------------------------------------------------------------------
template <class P> struct Panel {
  const P *at;
  i64 step;    // from one p to the next; if `along`, from one row to the next, where p + 1 lies beside p
  bool along;  // (of A)
};
template <class P, int M, int NV, bool Along> JC_NOINLINE void brick(i64 m, i64 w, i64 k, const P *a, i64 step, const P *b, i64 ldb, bool add, sum_of<P> *c, i64 ldc) {
  constexpr int N = Tile<P>::N;
  typedef vec<P, N> V;
  vec<sum_of<P>, N> acc[M][NV] = {};
  if (k > 64)
    JC_UNROLL
    for (int i = 0; i < M; i++)
      JC_UNROLL
      for (int j = 0; j < NV; j++) __builtin_prefetch(c + (i < m ? i : 0) * ldc + j * N, 1);
  const P *rows[(M + 2) / 3];  // every third: the others are addressed from them
  if constexpr (Along) {
    JC_UNROLL
    for (int i = 0; i < M; i += 3) rows[i / 3] = a + i * step;
  }
  for (i64 p = 0; p < k; p++, b += ldb) {
    V y[NV];
    JC_UNROLL
    for (int j = 0; j < NV; j++) y[j] = load<N>(b + j * N);
    JC_UNROLL
    for (int i = 0; i < M; i++) {
      V x = splat<P, N>(Along ? rows[i / 3][i % 3 * step] : a[i]);
      JC_UNROLL
      for (int j = 0; j < NV; j++) acc[i][j] = fma(x, y[j], acc[i][j]);
    }
    if constexpr (Along) {
      JC_UNROLL
      for (int i = 0; i < M; i += 3) rows[i / 3]++;
    } else a += step;
  }
  JC_UNROLL
  for (int i = 0; i < M; i++) {
    if (i >= m) return;
    JC_UNROLL
    for (int j = 0; j < NV; j++) {
      sum_of<P> *out = c + i * ldc + j * N;
      int n = w - j * N >= N ? N : w > j * N ? int(w - j * N) : 0;
      if (n == N) store(out, add ? load<N>(out) + acc[i][j] : acc[i][j]);
      else if (n) store_n(out, add ? load_n<N>(out, n) + acc[i][j] : acc[i][j], n);
    }
  }
}
template <class P, int NV, int M = 2> JC_NOINLINE void brick_of(i64 m, i64 w, i64 k, const P *a, i64 step, const P *b, i64 ldb, bool add, sum_of<P> *c, i64 ldc) {
  if constexpr (M < Tile<P>::M) {
    if (m > M) return brick_of<P, NV, M + 2>(m, w, k, a, step, b, ldb, add, c, ldc);
  }
  brick<P, M, NV, false>(m, w, k, a, step, b, ldb, add, c, ldc);
}
// c[0..m, 0..w) (+)= a b: m <= M rows and w <= W columns of panels that hold M and W.
template <class P> JC_INLINE void tile(i64 m, i64 w, i64 k, Panel<P> a, Panel<P> b, bool add, sum_of<P> *c, i64 ldc) {
  constexpr int N = Tile<P>::N, M = Tile<P>::M;
  if (w > N) {
    if (a.along) brick<P, M, 2, true>(m, w, k, a.at, a.step, b.at, b.step, add, c, ldc);
    else brick_of<P, 2>(m, w, k, a.at, a.step, b.at, b.step, add, c, ldc);
  } else {
    if (a.along) brick<P, M, 1, true>(m, w, k, a.at, a.step, b.at, b.step, add, c, ldc);
    else brick_of<P, 1>(m, w, k, a.at, a.step, b.at, b.step, add, c, ldc);
  }
}

// ---- products ---------------------------------------------------------------------------------
// One operand within a slab: `size` lanes (rows of A, columns of B) as panels of W.
template <class S, int W> struct Side {
  typedef panel_of<S> P;
  JcView<S> x;  // element (lane, p) at [lane * row + p * col]
  i64 size, k;
  bool direct;  // whole panels are read where they lie
  const P *made = nullptr;  // or else these were made before, `apart` elements from each other
  i64 apart = 0;
  bool spread = false;  // or copied as they lie, along k, with rows on other cache sets
  JC_INLINE i64 line() const { return k + 64 / i64(sizeof(P)); }  // from one of these rows to the next
  JC_INLINE i64 panels() const { return (size + W - 1) / W; }
  JC_INLINE i64 each() const { return spread ? W * line() : room<P, W>(steps_of<S>(k)); }  // elements of a panel
  JC_INLINE bool lies(i64 i) const { return direct && (i + 1) * W <= size; }
  JC_INLINE void pack_to(P *to, i64 lo, i64 hi) const {
    if (made) return;
    if (spread) {
      for (i64 i = lo * W; i < hi * W; i++, to += line())
        if (i < size) __builtin_memcpy(to, x.at + i * x.row, k * sizeof(S));
        else __builtin_memset(to, 0, k * sizeof(S));
    } else if (x.row == 1 && !direct) pack_rows<S, W>(smaller(size, hi * W) - lo * W, k, x.at + lo * W, x.col, to, each());
    else for (i64 i = lo; i < hi; i++)
      if (!lies(i)) pack<S, W>(size - i * W, k, x.at + i * W * x.row, x.row, x.col, to + (i - lo) * each());
  }
  JC_INLINE Panel<P> panel(const P *packed, i64 i) const {  // packed: where panel i would be
    if (made) return {made + i * apart, W, false};
    if (spread) return {packed, line(), true};
    if (!lies(i)) return {packed, W, false};
    return {(const P *)(x.at + i * W * x.row), x.row == 1 ? x.col : x.row, x.row != 1};
  }
};
struct Memory {  // of a thread, for panels: a block of its own, and what it shares; and for sums
  char *own, *slab, *tile;
};
constexpr i64 OWN_BYTES = up((BLOCK + 16) * (1536 + 128), 4096), SLAB_BYTES = up((SHARED + 64) * (1536 + 128), 4096);
constexpr i64 TILE_BYTES = 128 << 10, MOST_DEEP = 12 << 10;  // of a tile; of a row of A that is packed at once
inline Memory memory() {
  static thread_local char *at;
  static pthread_key_t key;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (!at) {
    pthread_once(&once, [] { pthread_key_create(&key, free); });
    at = (char *)aligned_alloc(4096, OWN_BYTES + SLAB_BYTES + 2 * TILE_BYTES);
    pthread_setspecific(key, at);
  }
  return {at, at + OWN_BYTES, at + OWN_BYTES + SLAB_BYTES};
}
// One slab: `shared` panels by all members, `cut` ones divided among them. Swapped: A is the shared.
template <bool Swapped, class S, int R, int Q> JC_INLINE void slab_product(const Side<S, R> &shared, const Side<S, Q> &cut, bool add, sum_of<panel_of<S>> *c, i64 ldc, int team) {
  typedef panel_of<S> P;
  constexpr i64 MOST = BLOCK / Q;
  i64 steps = steps_of<S>(cut.k), count = shared.panels();
  bool lies = shared.made || (shared.direct && shared.size % R == 0), apart = !lies && count * shared.each() * (i64)sizeof(P) <= APART;
  P *slab = (P *)memory().slab;
  if (!lies && !apart)
    parallel(count, 1, team, [=](i64 lo, i64 hi) { shared.pack_to(slab + lo * shared.each(), lo, hi); });
  parallel(cut.panels(), 1, team, [=](i64 lo, i64 hi) {
    Memory here = memory();
    P *own = (P *)here.own, *from = slab;
    if (apart) shared.pack_to(from = (P *)here.slab, 0, count);
    i64 blocks = (hi - lo + MOST - 1) / MOST, each = (hi - lo + blocks - 1) / blocks;
    for (i64 q0 = lo; q0 < hi; q0 += each) {
      i64 q1 = smaller(q0 + each, hi);
      cut.pack_to(own, q0, q1);
      for (i64 i = 0; i < count; i++) {
        auto x = shared.panel(from + i * shared.each(), i);
        for (i64 q = q0; q < q1; q++) {
          auto y = cut.panel(own + (q - q0) * cut.each(), q);
          i64 ni = smaller(shared.size - i * R, R), nq = smaller(cut.size - q * Q, Q);
          if constexpr (Swapped) tile<P>(ni, nq, steps, x, y, add, c + i * R * ldc + q * Q, ldc);
          else tile<P>(nq, ni, steps, y, x, add, c + q * Q * ldc + i * R, ldc);
        }
      }
    }
  }, apart ? 1 : 4);
}

// Some lanes of one side and all lanes of the other, over all slabs, a tile at a time.
template <class S, int W> struct Slabs {  // one operand, cut along k
  Side<S, W> whole;
  i64 depth, parts;
  JC_INLINE Side<S, W> slab(i64 p) const {
    auto s = whole;
    if (s.made) s.made += steps_of<S>(p * depth) * W;
    s.x.at += p * depth * s.x.col, s.k = smaller(s.k - p * depth, depth);
    return s;
  }
  JC_INLINE i64 each() const { return slab(0).each(); }  // elements of a panel of a slab, at most
  JC_INLINE void pack_to(panel_of<S> *to, i64 lo, i64 hi, i64 first, i64 count) const {  // panel i of slab p at p * count + i - first
    for (i64 p = 0; p < parts; p++) slab(p).pack_to(to + p * count * each() + (lo - first) * slab(p).each(), lo, hi);
  }
};
template <bool Swapped, class S, int R, int Q> JC_INLINE void tiled_product(const Slabs<S, R> &shared, const Slabs<S, Q> &cut, i64 at, const JcAfter<sum_of<panel_of<S>>> &after, int team) {
  typedef panel_of<S> P;
  typedef sum_of<P> T;
  i64 count = shared.whole.panels(), parts = cut.parts, most = BLOCK * 1536 / (Q * steps_of<S>(cut.whole.k) * i64(sizeof(P)));
  if (most > BLOCK / Q) most = BLOCK / Q;
  bool lies = shared.whole.made || (shared.whole.direct && shared.whole.size % R == 0), apart = !lies && parts * count * shared.each() * (i64)sizeof(P) <= APART;
  P *slab = (P *)memory().slab;
  if (!lies && !apart)
    parallel(count, 1, team, [=](i64 lo, i64 hi) { shared.pack_to(slab, lo, hi, 0, count); });
  parallel(cut.whole.panels(), 1, team, [=](i64 lo, i64 hi) {
    Memory here = memory();
    P *own = (P *)here.own, *from = slab;
    T *sums = (T *)here.tile;
    if (apart) shared.pack_to(from = (P *)here.slab, 0, count, 0, count);
    i64 blocks = (hi - lo + most - 1) / most, each = (hi - lo + blocks - 1) / blocks;
    i64 turns = smaller(count, TILE_BYTES / i64(sizeof(T)) / (each * Q * R)), ld = (Swapped ? each * Q : turns * R) + Tile<P>::N;
    for (i64 q0 = lo; q0 < hi; q0 += each) {
      i64 q1 = smaller(q0 + each, hi);
      cut.pack_to(own, q0, q1, q0, q1 - q0);
      for (i64 i0 = 0; i0 < count; i0 += turns) {
        i64 i1 = smaller(i0 + turns, count);
        for (i64 p = 0; p < parts; p++) {
          auto xs = shared.slab(p);
          auto ys = cut.slab(p);
          const P *xp = from + p * count * shared.each(), *yp = own + p * (q1 - q0) * cut.each();
          for (i64 i = i0; i < i1; i++) {
            auto x = xs.panel(xp + i * xs.each(), i);
            for (i64 q = q0; q < q1; q++) {
              auto y = ys.panel(yp + (q - q0) * ys.each(), q);
              i64 ni = smaller(xs.size - i * R, R), nq = smaller(ys.size - q * Q, Q), steps = steps_of<S>(ys.k);
              if constexpr (Swapped) tile<P>(ni, nq, steps, x, y, p > 0, sums + (i - i0) * R * ld + (q - q0) * Q, ld);
              else tile<P>(nq, ni, steps, y, x, p > 0, sums + (q - q0) * Q * ld + (i - i0) * R, ld);
            }
          }
        }
        i64 a0 = at + i0 * R, a1 = at + smaller(i1 * R, shared.whole.size), b0 = q0 * Q, b1 = smaller(q1 * Q, cut.whole.size);
        if constexpr (Swapped) after.run(after.env, after.row + a0, after.row + a1, b0, b1, sums, ld);
        else after.run(after.env, after.row + b0, after.row + b1, a0, a1, sums, ld);
      }
    }
  }, apart ? 1 : 4);
}

// Lane i of the result is the sum of r[i], i < Count.
template <class V, int Count> JC_INLINE V sums_of(const V *r) {
  if constexpr (Count == 1) return r[0];
  else {
    V half[Count / 2];
    JC_UNROLL
    for (int i = 0; i < Count / 2; i++) {
      V lo, hi;
      interleave(r[i], r[i + Count / 2], &lo, &hi);
      half[i] = lo + hi;
    }
    return sums_of<V, Count / 2>(half);
  }
}
template <class V> JC_INLINE V kept(V v) {  // in a register: a load that several fmas would repeat
#if JC_X86
  asm("" : "+v"(v));
#endif
  return v;
}
template <class S> struct Dots {  // rows x columns of C: as many sums as a vector has lanes
  static constexpr int N = native_lanes<panel_of<S>>, R = N >= 8 ? 4 : 2, M = N / R;
};
template <class S> JC_NOINLINE void dots(i64 m, i64 n, i64 k, const S *a, i64 lda, const S *b, i64 ldb, sum_of<panel_of<S>> *c, i64 ldc) {
  typedef panel_of<S> P;
  constexpr int N = Dots<S>::N, R = Dots<S>::R, M = Dots<S>::M, E = in_pairs<S> ? 2 : 1;
  vec<sum_of<P>, N> acc[N] = {};
  const S *x[M], *y[R];  // beyond the last, the first again
  JC_UNROLL
  for (int i = 0; i < M; i++) x[i] = a + (i < m ? i : 0) * lda;
  JC_UNROLL
  for (int j = 0; j < R; j++) y[j] = b + (j < n ? j : 0) * ldb;
  auto step = [&](i64 p, i64 left) __attribute__((always_inline)) {
    vec<P, N> u[M];
    JC_UNROLL
    for (int i = 0; i < M; i++) u[i] = kept(from_along(x[i] + p, left));
    JC_UNROLL
    for (int j = 0; j < R; j++) {
      auto v = kept(from_along(y[j] + p, left));
      JC_UNROLL
      for (int i = 0; i < M; i++) acc[i * R + j] = fma(u[i], v, acc[i * R + j]);
    }
  };
  i64 p = 0;
  for (; p + N * E <= k; p += N * E) step(p, N * E);
  if (p < k) step(p, k - p);
  sum_of<P> all[N];
  store(all, sums_of<vec<sum_of<P>, N>, N>(acc));
  for (int i = 0; i < m && i < M; i++)
    for (int j = 0; j < n && j < R; j++) c[i * ldc + j] = all[i * R + j];
}
template <class S> JC_NOINLINE void dots_product(i64 m, i64 n, i64 k, const S *a, i64 lda, const S *b, i64 ldb, sum_of<panel_of<S>> *c, i64 ldc) {
  int team = team_for_product(m, n, k);
  constexpr int R = Dots<S>::R, M = Dots<S>::M;
  auto rows = [=](i64 lo, i64 hi, i64 j0, i64 j1) {
    for (i64 j = j0; j < j1; j += R)
      for (i64 i = lo; i < hi; i += M) dots(hi - i, j1 - j, k, a + i * lda, lda, b + j * ldb, ldb, c + i * ldc + j, ldc);
  };
  if (m <= n) parallel(n, R, team, [=](i64 lo, i64 hi) { rows(0, m, lo, hi); }, 2);
  else parallel(m, M, team, [=](i64 lo, i64 hi) { for (i64 i = lo; i < hi; i += M) rows(i, smaller(i + M, hi), 0, n); }, 2);
}
// A product so small that setting anything up would show: rows of b as they lie, a by its strides.
template <class T, int N, int M> JC_NOINLINE void few_rows(i64 n, i64 k, JcView<T> a, const T *b, i64 ldb, T *c, i64 ldc) {
  typedef vec<T, N> V;
  for (i64 j = 0; j < n; j += N) {
    int w = n - j < N ? int(n - j) : N;
    V acc[M] = {};
    for (i64 p = 0; p < k; p++) {
      V y = w == N ? load<N>(b + p * ldb + j) : load_n<N>(b + p * ldb + j, w);
      JC_UNROLL
      for (int i = 0; i < M; i++) acc[i] = fma(splat<T, N>(a.at[i * a.row + p * a.col]), y, acc[i]);
    }
    JC_UNROLL
    for (int i = 0; i < M; i++) w == N ? store(c + i * ldc + j, acc[i]) : store_n(c + i * ldc + j, acc[i], w);
  }
}
template <class T, int N> JC_INLINE void few_product(i64 m, i64 n, i64 k, JcView<T> a, const T *b, i64 ldb, T *c, i64 ldc) {
  i64 i = 0;
  for (; i + 8 <= m; i += 8) few_rows<T, N, 8>(n, k, {a.at + i * a.row, a.row, a.col}, b, ldb, c + i * ldc, ldc);
  for (; i + 4 <= m; i += 4) few_rows<T, N, 4>(n, k, {a.at + i * a.row, a.row, a.col}, b, ldb, c + i * ldc, ldc);
  for (; i < m; i++) few_rows<T, N, 1>(n, k, {a.at + i * a.row, a.row, a.col}, b, ldb, c + i * ldc, ldc);
}
template <class T> JC_NOINLINE void turned_product(i64 m, i64 n, i64 k, JcView<T> a, const T *b, i64 ldb, T *c, i64 ldc) {
  constexpr int N = Tile<T>::N;
  alignas(64) T panel[512 * N];
  for (i64 j = 0; j < n; j += N) {
    pack<T, N>(n - j, k, b + j * ldb, ldb, 1, panel);
    few_product<T, N>(m, smaller(n - j, N), k, a, panel, N, c + j, ldc);
  }
}
// Columns [lo, hi) of b as panels, for all products with it; lo is where one begins. `panels`: the first.
template <class S> JC_INLINE void pack_panels(i64 k, i64 lo, i64 hi, JcView<S> b, void *panels) {
  constexpr int W = Tile<panel_of<S>>::W;
  Side<S, W> y = {{b.at + lo * b.col, b.col, b.row}, hi - lo, k, false};
  y.pack_to((panel_of<S> *)panels + lo / W * y.each(), 0, y.panels());
}
template <class S> JC_NOINLINE bool packed_product(i64 m, i64 n, i64 k, JcView<S> a, JcView<S> b, sum_of<panel_of<S>> *c, i64 ldc, bool add, const JcAfter<sum_of<panel_of<S>>> *after) {
  typedef panel_of<S> P;
  constexpr int W = Tile<P>::W, M = Tile<P>::M;
  constexpr bool As = same<S, P>;  // panels may be read where they lie
  if (!memory().own) return false;
  int team = team_for_product(m, n, k);
  bool swapped = m <= n, few = n <= W;
  auto small = [](i64 lanes, i64 k, i64 apart) { return lanes * k * i64(sizeof(S)) <= CACHED && apart * i64(sizeof(S)) % LINES; };
  bool clash = a.row * i64(sizeof(S)) % LINES == 0;
  bool direct_a = As && (n <= 8 * W || small(m, k, a.col)) && (a.row == 1 || (a.col == 1 && (few || !clash)));
  bool spread_a = As && n <= 2 * W && a.col == 1 && clash && !direct_a;  // for so few columns turning costs more
  bool direct_b = As && !b.panels.at && b.col == 1 && (m <= 2 * M || small(n, k, b.row));
  i64 most = DEPTH<P> * (in_pairs<S> ? 2 : 1), parts = (k + most - 1) / most, depth = up((k + parts - 1) / parts, 16);
  i64 lanes = SHARED, panel = swapped ? M : W, step = depth;
  if (after) {  // all slabs at once
    i64 bytes = steps_of<S>(k) * i64(sizeof(P));
    if (bytes > MOST_DEEP) return false;
    if (parts > 1) lanes = SHARED * 1536 / bytes;
    lanes -= lanes % panel, step = k;
  }
  i64 mc = swapped ? lanes : m, nc = swapped ? n : lanes;
  for (i64 i = 0; i < m; i += mc)
    for (i64 j = 0; j < n; j += nc)
      for (i64 p = 0; p < k; p += step) {
        i64 deep = smaller(k - p, step);
        Side<S, M> x = {{a.at + i * a.row + p * a.col, a.row, a.col}, smaller(m - i, mc), deep, direct_a, nullptr, 0, spread_a};
        Side<S, W> y = {{b.at + j * b.col + p * b.row, b.col, b.row}, smaller(n - j, nc), deep, direct_b};
        if (auto made = b.panels; made.at) {
          y.apart = W * steps_of<S>(made.deep);
          y.made = (const P *)made.at + (made.col + j) / W * y.apart + steps_of<S>(made.row + p) * W;
        }
        if (after) {
          Slabs<S, M> xs = {x, depth, parts};
          Slabs<S, W> ys = {y, depth, parts};
          if (swapped) tiled_product<true>(xs, ys, i, *after, team);
          else tiled_product<false>(ys, xs, j, *after, team);
        } else if (swapped) slab_product<true>(x, y, add || p > 0, c + i * ldc + j, ldc, team);
        else slab_product<false>(y, x, add || p > 0, c + i * ldc + j, ldc, team);
      }
  return true;
}
// c = a b, or c += a b; rows of c lie ldc apart. Or what `after` makes of it. False, and nothing written,
// where there is no memory, or a product to be made in tiles is too small for them or too deep.
template <class S> JC_INLINE bool brick_product(i64 m, i64 n, i64 k, JcView<S> a, JcView<S> b, sum_of<panel_of<S>> *c, i64 ldc, bool add = false, const JcAfter<sum_of<panel_of<S>>> *after = nullptr) {
  if (add || b.panels.at) return packed_product<S>(m, n, k, a, b, c, ldc, add, after);
  constexpr int N = Tile<panel_of<S>>::N;
  bool few = m * n * k <= FEW;
  if constexpr (same<S, panel_of<S>>) {
    if (few && b.col == 1) {
      if (after) return false;
      constexpr int FOURTH = N > 4 ? N / 4 : 1;
      if (n <= FOURTH) few_product<S, FOURTH>(m, n, k, a, b.at, b.row, c, ldc);
      else if (n <= N / 2) few_product<S, N / 2>(m, n, k, a, b.at, b.row, c, ldc);
      else few_product<S, N>(m, n, k, a, b.at, b.row, c, ldc);
      return true;
    }
    if (is_turned(m, n, k, b.row)) {
      if (after) return false;
      turned_product<S>(m, n, k, a, b.at, b.col, c, ldc);
      return true;
    }
  }
  if (smaller(m, n) <= 16 && (k >= 64 || few) && a.col == 1 && b.row == 1) {
    if (after) return false;
    dots_product<S>(m, n, k, a.at, a.row, b.at, b.col, c, ldc);
    return true;
  }
  return packed_product<S>(m, n, k, a, b, c, ldc, false, after);
}
}  // namespace jc
