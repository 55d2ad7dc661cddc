// Library steps: convolutions and their gradients as products over the batch, for small maps.
//
// Where a map has few places, its rows fill no register, and much of what a window sees is padding. So
// the samples of a batch are the rows of a product, for each place of the result apart: place q of all
// samples is the sum, over the taps that lie inside the map there, of (samples x channels of the source
// place) times (channels x result channels of the tap). No patch is copied and no zero multiplied; any
// stride, dilation and number of dimensions is the same list of pairs of a place and a tap. The weight
// gradient is, for each tap, the sum over pairs of places of (channels x samples) times (samples x
// result channels). Where each channel is a group of its own there is no product, and channels are the lanes.
//
// Both operands are packed once by the team, turned: rows in panels of S (of which up to M exist), result
// channels in panels of W. Every result is a sum in one fixed order: the number of threads changes nothing.
#pragma once
#include "jitcap_brick.h"

namespace jc {
struct Conv {  // three spatial dimensions each; missing ones are of size 1. x (n, c, *in), w (o, c / groups, *k)
  i64 n, c, o, groups, in[3], out[3], k[3], stride[3], pad[3], dil[3];
};
template <class T> struct ConvRoom {  // scratch; sizes are computed in conv.py
  T *packed;     // weights, or partial weight gradients; over the batch: both operands
  i64 *offsets;  // of taps, or pairs of a place and a tap
  T *bands;      // per member: `room` elements for a band of source, then `turned` for transposed gradients
  i64 room, turned;
  bool by_batch;  // the kernels of jitcap_conv_maps.h
};
template <class T> struct Rows {  // how many a panel holds, and how far apart its steps lie
  static constexpr i64 M = Tile<T>::M, S = up(M, Tile<T>::N);
};
struct Panels { i64 a, b; };  // where panels of both operands begin
// c (+)= the sum over pairs of a brick: m <= M rows, NV vectors, each product of depth k.
template <class T, int NV, int M> JC_NOINLINE void brick_sum(i64 m, i64 k, const T *a, const T *b, const Panels *pairs, i64 count, bool add, T *c, i64 ldc) {
  constexpr int N = Tile<T>::N;
  typedef vec<T, N> V;
  V acc[M][NV] = {};
  for (; count; count--, pairs++) {
    const T *x = a + pairs->a, *y = b + pairs->b;
    for (i64 p = 0; p < k; p++, x += Rows<T>::S, y += Tile<T>::W) {
      V v[NV];
      JC_UNROLL
      for (int j = 0; j < NV; j++) v[j] = load<N>(y + j * N);
      JC_UNROLL
      for (int i = 0; i < M; i++) {
        V u = splat<T, N>(x[i]);
        JC_UNROLL
        for (int j = 0; j < NV; j++) acc[i][j] = mac(u, v[j], acc[i][j]);
      }
    }
  }
  JC_UNROLL
  for (int i = 0; i < M; i++) {
    if (i >= m) return;
    JC_UNROLL
    for (int j = 0; j < NV; j++) store(c + i * ldc + j * N, add ? load<N>(c + i * ldc + j * N) + acc[i][j] : acc[i][j]);
  }
}
template <class T, int NV, int M = 4> JC_NOINLINE void brick_sum_of(i64 m, i64 k, const T *a, const T *b, const Panels *pairs, i64 count, bool add, T *c, i64 ldc) {
  if constexpr (M < Tile<T>::M) {
    if (m > M) return brick_sum_of<T, NV, M + 4 < Tile<T>::M ? M + 4 : Tile<T>::M>(m, k, a, b, pairs, count, add, c, ldc);
  }
  brick_sum<T, NV, M>(m, k, a, b, pairs, count, add, c, ldc);
}
template <class T> JC_INLINE void tile_sum(i64 m, i64 w, i64 k, const T *a, const T *b, const Panels *pairs, i64 count, bool add, T *c, i64 ldc) {
  if (w > Tile<T>::N) brick_sum_of<T, 2>(m, k, a, b, pairs, count, add, c, ldc);
  else brick_sum_of<T, 1>(m, k, a, b, pairs, count, add, c, ldc);
}

// ---- packing ----------------------------------------------------------------------------------
// out[e % inner * far + e / inner * step + lane] = in[lane * apart + e] for e < count and `lanes` lanes,
// whole vectors; zeros where lane >= live.
template <class T> JC_NOINLINE void spread(T *out, i64 far, i64 step, i64 inner, i64 lanes, const T *in, i64 apart, i64 live, i64 count) {
  constexpr int N = native_lanes<T>;
  typedef vec<T, N> V;
  for (i64 first = 0; first < lanes; first += N, out += N, in += N * apart, live -= N) {
    if (apart == 1 && count == 1) {
      store(out, live >= N ? load<N>(in) : load_n<N>(in, live > 0 ? int(live) : 0));
      continue;
    }
    T *group = out;
    i64 j = 0;
    for (i64 e = 0; e < count; e += N) {
      V v[N];
      int n = count - e < N ? int(count - e) : N;
      JC_UNROLL
      for (int i = 0; i < N; i++) v[i] = i < live ? n == N ? load<N>(in + i * apart + e) : load_n<N>(in + i * apart + e, n) : V{};
      transpose<N>(v);
      JC_UNROLL
      for (int i = 0; i < N; i++) {
        if (i >= n) break;
        store(group + j * far, v[i]);
        if (++j == inner) j = 0, group += step;
      }
    }
  }
}
// out[lane * apart + e] = in[e * W + lane] for e < count and live lanes.
template <class T> JC_NOINLINE void gather(T *out, i64 apart, const T *in, i64 live, i64 count) {
  constexpr int N = native_lanes<T>;
  for (i64 first = 0; first < live; first += N, out += N * apart, in += N) {
    int some = live - first < N ? int(live - first) : N;
    if (count == 1 && apart == 1) {
      store_n(out, load<N>(in), some);
      continue;
    }
    for (i64 e = 0; e < count; e += N) {
      vec<T, N> v[N];
      int n = count - e < N ? int(count - e) : N;
      JC_UNROLL
      for (int i = 0; i < N; i++) v[i] = load<N>(in + (e + (i < n ? i : 0)) * Tile<T>::W);
      transpose<N>(v);
      JC_UNROLL
      for (int i = 0; i < N; i++)
        if (i < some) n == N ? store(out + i * apart + e, v[i]) : store_n(out + i * apart + e, v[i], n);
    }
  }
}

// ---- places and taps --------------------------------------------------------------------------
JC_INLINE i64 product_of(const i64 *x) { return x[0] * x[1] * x[2]; }
// The place of dimension d that result i reads through tap k, or -1.
JC_INLINE i64 place_read(const Conv &g, int d, i64 i, i64 k, bool forward) {
  if (forward) {
    i64 s = i * g.stride[d] - g.pad[d] + k * g.dil[d];
    return s < g.in[d] ? s : -1;
  }
  i64 s = i + g.pad[d] - k * g.dil[d];
  return s < 0 || s % g.stride[d] || s / g.stride[d] >= g.out[d] ? -1 : s / g.stride[d];
}
// f(result place, tap, source place) for all that exist, place by place.
template <class F> JC_INLINE void each_read(const Conv &g, bool forward, F f) {
  const i64 *to = forward ? g.out : g.in, *from = forward ? g.in : g.out;
  i64 q = 0;
  for (i64 z = 0; z < to[0]; z++)
    for (i64 y = 0; y < to[1]; y++)
      for (i64 x = 0; x < to[2]; x++, q++)
        for (i64 c = 0, t = 0; c < g.k[0]; c++)
          for (i64 b = 0; b < g.k[1]; b++)
            for (i64 a = 0; a < g.k[2]; a++, t++) {
              i64 p = place_read(g, 0, z, c, forward), r = place_read(g, 1, y, b, forward), s = place_read(g, 2, x, a, forward);
              if (p >= 0 && r >= 0 && s >= 0) f(q, t, (p * from[1] + r) * from[2] + s);
            }
}
// The pairs of each result: source places are `a` apart, taps `b`.
struct Reads {
  i64 *first;
  Panels *pairs;
  JC_NOINLINE Reads(const Conv &g, bool forward, i64 *room, i64 a, i64 b) : first(room) {
    i64 places = product_of(forward ? g.out : g.in), found = 0;
    pairs = (Panels *)(first + places + 1);
    for (i64 i = 0; i <= places; i++) first[i] = 0;
    each_read(g, forward, [&](i64 place, i64 tap, i64 from) {
      pairs[found++] = {from * a, tap * b};
      first[place + 1] = found;
    });
    for (i64 i = 0; i < places; i++) first[i + 1] = first[i + 1] ? first[i + 1] : first[i];
  }
  JC_INLINE const Panels *of(i64 place) const { return pairs + first[place]; }
  JC_INLINE i64 count(i64 place) const { return first[place + 1] - first[place]; }
};
constexpr i64 CHUNK = 32;  // channels that one member packs at a time
JC_INLINE i64 blocks_of(i64 n, i64 each) { return (n + each - 1) / each; }

// ---- forward and input gradient ---------------------------------------------------------------
template <class T> struct Maps {
  static constexpr i64 W = Tile<T>::W, M = Rows<T>::M, S = Rows<T>::S;
  i64 n, groups, cin, cout, src, dst, taps;  // channels per group; places
  i64 w_out, w_in;                           // strides of the weights over channels
  const T *x, *w;
  T *packed, *turned;
  i64 rows, tiles, panels, chunks;  // samples in a tile of them; panels of result channels
  // Weights: packed[group][panel][tap][channel][W].
  JC_NOINLINE void pack_weights(i64 item) const {
    i64 c0 = item % chunks * CHUNK, c1 = smaller(c0 + CHUNK, cin), panel = item / chunks % panels, group = item / chunks / panels;
    const T *from = w + group * cin * cout * taps + panel * W * w_out + c0 * w_in;
    T *to = packed + ((group * panels + panel) * taps * cin + c0) * W;
    i64 live = cout - panel * W;
    if (w_in == taps) spread<T>(to, cin * W, W, taps, W, from, w_out, live, (c1 - c0) * taps);
    else
      for (i64 c = c0; c < c1; c++, from += w_in, to += W) spread<T>(to, cin * W, 0, taps, W, from, w_out, live, taps);
  }
  // The source: turned[group][tile][place][channel][S].
  JC_NOINLINE void turn_source(i64 item) const {
    i64 c0 = item % chunks * CHUNK, c1 = smaller(c0 + CHUNK, cin), at = item / chunks % tiles, group = item / chunks / tiles;
    i64 all = groups * cin * src;
    T *to = turned + ((group * tiles + at) * src * cin + c0) * S;
    spread<T>(to, cin * S, S, src, S, x + at * rows * all + (group * cin + c0) * src, all, smaller(rows, n - at * rows), (c1 - c0) * src);
  }
  JC_NOINLINE void result(i64 item, const Reads &reads, T *tile, T *out) const {
    i64 at = item % tiles, panel = item / tiles % panels, group = item / tiles / panels;
    i64 m = smaller(rows, n - at * rows), live = smaller(W, cout - panel * W);
    const T *a = turned + (group * tiles + at) * src * cin * S, *b = packed + (group * panels + panel) * taps * cin * W;
    for (i64 q = 0; q < dst; q++) tile_sum<T>(m, live, cin, a, b, reads.of(q), reads.count(q), false, tile + q * W, dst * W);
    for (i64 i = 0; i < m; i++)
      gather<T>(out + (((at * rows + i) * groups + group) * cout + panel * W) * dst, dst, tile + i * dst * W, live, dst);
  }
};
JC_INLINE bool is_depthwise(const Conv &g) { return g.groups > 1 && g.groups == g.c && g.c == g.o; }
template <class T> JC_NOINLINE void depthwise_maps(const Conv &g, bool forward, const T *x, const T *w, T *out, ConvRoom<T> room);
template <class T> JC_NOINLINE void correlate_maps(const Conv &g, bool forward, const T *x, const T *w, T *out, ConvRoom<T> room) {
  typedef Maps<T> P;
  if (is_depthwise(g)) return depthwise_maps(g, forward, x, w, out, room);
  i64 c = g.c / g.groups, o = g.o / g.groups, taps = product_of(g.k);
  P q = {g.n, g.groups, c, o, product_of(g.in), product_of(g.out), taps, c * taps, taps, x, w, room.packed};
  if (!forward) q.cin = o, q.cout = c, q.src = product_of(g.out), q.dst = product_of(g.in), q.w_out = taps, q.w_in = c * taps;
  q.tiles = blocks_of(q.n, P::M);
  q.rows = smaller(up(blocks_of(q.n, q.tiles ? q.tiles : 1), 4), P::M);  // as few as the kernels have
  q.panels = blocks_of(q.cout, P::W), q.chunks = blocks_of(q.cin, CHUNK);
  q.turned = room.packed + q.groups * q.panels * taps * q.cin * P::W;
  Reads reads(g, forward, room.offsets, q.cin * P::S, q.cin * P::W);
  i64 weights = q.groups * q.panels * q.chunks;
  int team = (f64)g.n * g.groups * reads.first[q.dst] * q.cin * q.cout < 2e5 ? 1 : threads();
  share(weights + q.groups * q.tiles * q.chunks, team, [=, &q](i64 i) { i < weights ? q.pack_weights(i) : q.turn_source(i - weights); });
  share(q.groups * q.panels * q.tiles, team, [=, &q](i64 i) { q.result(i, reads, room.bands + member() * room.room, out); });
}

// ---- depthwise ---------------------------------------------------------------------------------
// c (+)= the sum over pairs of the product of two vectors of channels, lane by lane; W of them.
template <class T> JC_INLINE void lanes_sum(const T *a, const T *b, const Panels *pairs, i64 count, bool add, T *c) {
  constexpr int N = Tile<T>::N;
  vec<T, N> low = {}, high = {};
  if (add) low = load<N>(c), high = load<N>(c + N);
  for (; count; count--, pairs++) {
    low = mac(load<N>(a + pairs->a), load<N>(b + pairs->b), low);
    high = mac(load<N>(a + pairs->a + N), load<N>(b + pairs->b + N), high);
  }
  store(c, low), store(c + N, high);
}
template <class T> JC_NOINLINE void depthwise_maps(const Conv &g, bool forward, const T *x, const T *w, T *out, ConvRoom<T> room) {
  constexpr i64 W = Tile<T>::W;
  i64 n = g.n, c = g.c, taps = product_of(g.k), in = product_of(g.in), to = product_of(g.out), src = forward ? in : to, dst = forward ? to : in;
  i64 panels = blocks_of(c, W);
  Reads reads(g, forward, room.offsets, W, W);
  for (i64 i = 0; i < panels; i++) spread<T>(room.packed + i * taps * W, W, 0, taps, W, w + i * W * taps, taps, c - i * W, taps);
  parallel(n * panels, 1, (f64)n * c * reads.first[dst] < 1e5 ? 1 : threads(), [=](i64 lo, i64 hi) {
    T *turned = room.bands + member() * room.room, *tile = turned + src * W;
    for (i64 i = lo; i < hi; i++) {
      i64 at = i % panels * W, map = i / panels * c + at, live = smaller(W, c - at);
      spread<T>(turned, W, 0, src, W, x + map * src, src, live, src);
      for (i64 q = 0; q < dst; q++) lanes_sum<T>(turned, room.packed + at * taps, reads.of(q), reads.count(q), false, tile + q * W);
      gather<T>(out + map * dst, dst, tile, live, dst);
    }
  });
}
template <class T> JC_NOINLINE void depthwise_weight_grad(const Conv &g, const T *grad, const T *x, T *out, ConvRoom<T> room, const i64 *count, const Panels *pairs, int team) {
  constexpr i64 W = Tile<T>::W;
  i64 n = g.n, c = g.c, taps = product_of(g.k), src = product_of(g.in), dst = product_of(g.out);
  share(blocks_of(c, W), team, [=](i64 i) {
    T *turned = room.bands + member() * room.room, *grads = turned + src * W, *tile = grads + dst * W;
    i64 live = smaller(W, c - i * W);
    for (i64 s = 0; s < n; s++) {
      spread<T>(turned, W, 0, src, W, x + (s * c + i * W) * src, src, live, src);
      spread<T>(grads, W, 0, dst, W, grad + (s * c + i * W) * dst, dst, live, dst);
      for (i64 t = 0; t < taps; t++) lanes_sum<T>(turned, grads, pairs + t * dst, count[t], s > 0, tile + t * W);
    }
    gather<T>(out + i * W * taps, taps, tile, live, taps);
  });
}

// ---- weight gradient --------------------------------------------------------------------------
constexpr i64 CONV_STEPS = 1024;  // of a sum over places and samples, whose panels stay in the second-level cache
template <class T> JC_NOINLINE void weight_grad_maps(const Conv &g, const T *grad, const T *x, T *out, ConvRoom<T> room) {
  constexpr i64 W = Tile<T>::W, M = Rows<T>::M, S = Rows<T>::S;
  i64 n = g.n, cin = g.c / g.groups, cout = g.o / g.groups, taps = product_of(g.k), src = product_of(g.in), dst = product_of(g.out);
  i64 panels = blocks_of(cout, W), tiles = blocks_of(cin, M);
  T *grads = room.packed, *turned = grads + g.groups * panels * dst * n * W;  // [group][panel][place][sample][W], [group][tile][place][sample][S]
  i64 *count = room.offsets;
  Panels *pairs = (Panels *)(count + taps);  // [tap][up to dst]
  i64 step_x = is_depthwise(g) ? W : n * S, step_g = is_depthwise(g) ? W : n * W;
  for (i64 t = 0; t < taps; t++) count[t] = 0;
  each_read(g, true, [&](i64 place, i64 tap, i64 from) { pairs[tap * dst + count[tap]++] = {from * step_x, place * step_g}; });
  i64 work = 0;
  for (i64 t = 0; t < taps; t++) work += count[t];
  int team = (f64)n * work * g.o * cin < 2e5 ? 1 : threads();
  if (is_depthwise(g)) return depthwise_weight_grad(g, grad, x, out, room, count, pairs, team);
  i64 of_grads = g.groups * panels, each = blocks_of(CONV_STEPS, n ? n : 1);
  share(of_grads + g.groups * tiles, team, [=](i64 i) {
    bool first = i < of_grads;
    i64 width = first ? panels : tiles, group = (first ? i : i - of_grads) / width, at = (first ? i : i - of_grads) % width;
    i64 lanes = first ? W : S, step = first ? W : M, all = first ? cout : cin, places = first ? dst : src;
    const T *from = (first ? grad : x) + (group * all + at * step) * places;
    T *to = (first ? grads : turned) + (group * width + at) * places * n * lanes;
    for (i64 s = 0; s < n; s++, from += g.groups * all * places, to += lanes)
      spread<T>(to, n * lanes, 0, places, lanes, from, places, smaller(step, all - at * step), places);
  });
  share(g.groups * panels * tiles, team, [=](i64 i) {
    T *tile = room.bands + member() * room.room;
    i64 at = i % tiles, panel = i / tiles % panels, group = i / tiles / panels;
    i64 m = smaller(M, cin - at * M), live = smaller(W, cout - panel * W);
    const T *a = turned + (group * tiles + at) * src * n * S, *b = grads + (group * panels + panel) * dst * n * W;
    for (i64 t = 0; t < taps; t++)
      for (i64 p = 0; p < count[t] || !p; p += each)
        tile_sum<T>(m, live, n, a, b, pairs + t * dst + p, smaller(each, count[t] - p), p > 0, tile + t * W, taps * W);
    gather<T>(out + ((group * cout + panel * W) * cin + at * M) * taps, cin * taps, tile, live, m * taps);
  });
}
}  // namespace jc
