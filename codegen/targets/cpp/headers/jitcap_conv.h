// Library steps: convolution of one to three dimensions and its two gradients, on contiguous NCHW tensors.
//
// Direct convolution, no im2col. Forward and input gradient are one routine, `correlate`: result place i
// of a dimension reads source places i * step + off(tap). For the forward pass step is the stride. The
// input gradient of stride s falls into s interleaved results per dimension, each a correlation of
// step 1 over the taps that reach it, so no product with an inserted zero is ever computed.
//
// A unit of work is a band of result rows of one sample. Its source is copied into scratch that fits
// the second-level cache, zeros around it, columns of a stride sorted by remainder: then everything
// below reads with unit step and tests no bounds. The tile in registers is P neighbouring results x OV
// vectors of output channels (weights packed so that channels are contiguous): one vector of weights
// is multiplied by P broadcast sources, and the tile is transposed when it is stored. Where channels
// are few and rows long, or a group has hardly any channels (depthwise), lanes run along the row
// instead. Every result is a sum in one fixed order: the number of threads changes nothing.
#pragma once
#include "jitcap_conv_patches.h"
#include "jitcap_dot.h"

namespace jc {
template <class T> constexpr int conv_pixels = JC_BYTES == 64 ? 8 : native_lanes<T> < 4 ? native_lanes<T> : 4;

constexpr int CONV_TILES = 16;           // tiles whose sums may wait for the next input channels
constexpr i64 CONV_WEIGHTS = 16 << 10;   // bytes of weights that stay in the first-level cache
constexpr i64 CONV_BLOCKS = 1200 << 10;  // and in the second-level cache
constexpr int CONV_ROW_CHANNELS = JC_BYTES == 64 ? 8 : 4;
// Output channels side by side in a block of packed weights: one or a few (lanes run along a row of
// `count` results, which must be long), else one or two vectors of them.
template <class T> JC_INLINE i64 conv_block(i64 cout, i64 count) {
  constexpr int N = native_lanes<T>;
  return cout < N / 4 ? 1 : cout <= N && count >= 2 * N ? CONV_ROW_CHANNELS : cout <= N ? N : 2 * N;
}

// ---- one dimension of a correlation -----------------------------------------------------------
struct Sweep {
  i64 count, step;           // results, and how far apart in the source they read
  i64 to, at;                // result i is stored at i * to + at
  i64 taps, off, doff;       // tap t reads at i * step + off + t * doff
  i64 tap, dtap;             // and is the filter's tap number tap + t * dtap
  JC_INLINE i64 low() const { return doff < 0 ? off + (taps - 1) * doff : off; }
  JC_INLINE i64 span() const { return taps ? (taps - 1) * (doff < 0 ? -doff : doff) : 0; }
};
JC_INLINE Sweep forward_sweep(const Conv &g, int d) {
  return {g.out[d], g.stride[d], 1, 0, g.k[d], -g.pad[d], g.dil[d], 0, 1};
}
JC_INLINE i64 common_divisor(i64 a, i64 b) {
  while (b) {
    i64 r = a % b;
    a = b;
    b = r;
  }
  return a;
}
// The inputs at remainder r: tap k reaches them if stride divides r + pad - k * dil.
JC_INLINE Sweep grad_sweep(const Conv &g, int d, i64 r) {
  i64 s = g.stride[d], div = common_divisor(s, g.dil[d]), first = 0;
  while (first < g.k[d] && (r + g.pad[d] - first * g.dil[d]) % s) first++;
  i64 every = s / div, taps = first < g.k[d] ? (g.k[d] - 1 - first) / every + 1 : 0;
  i64 count = r < g.in[d] ? (g.in[d] - r + s - 1) / s : 0;
  return {count, 1, s, r, taps, (r + g.pad[d] - first * g.dil[d]) / s, -(g.dil[d] / div), first, every};
}

// ---- a band of source in scratch --------------------------------------------------------------
struct Band {  // one slice per tap of the first dimension; rows of `phases` parts of `width` columns
  i64 rows, width, phases, row, slice, plane;
};
JC_INLINE Band band_of(const Sweep *s, i64 rows) {
  Band b;
  b.phases = s[2].step < s[2].span() + 1 ? s[2].step : s[2].span() + 1;
  b.width = s[2].count + s[2].span() / s[2].step;
  b.rows = (rows - 1) * s[1].step + s[1].span() + 1;
  b.row = b.width * b.phases;
  b.slice = b.rows * b.row;
  b.plane = s[0].taps * b.slice;
  return b;
}
// The most rows (at least one) whose band fits, in parts of nearly equal size, not fewer than `parts`.
JC_INLINE i64 band_rows(const Sweep *s, i64 channels, i64 room, i64 pixels_room, i64 parts) {
  i64 rows = s[1].count, slack = 2 * JC_BYTES;
  while (rows > 1 && (channels * band_of(s, rows).plane + slack > room || rows * s[2].count > pixels_room)) rows = (rows + 1) / 2;
  i64 bands = (s[1].count + rows - 1) / rows;
  if (bands < parts) bands = parts < s[1].count ? parts : s[1].count;
  return (s[1].count + bands - 1) / bands;
}
// Rows of a band are written in the order of memory, by whole vectors: what a vector writes past its
// row is written again by the next row, or falls into the slack behind the band.
template <class T> JC_INLINE void zero_columns(T *out, i64 from, i64 to) {
  constexpr int N = native_lanes<T>;
  if (from < to) store(out + from, vec<T, N>{});  // outside the loop, which the compiler makes a call of memset
  for (i64 i = from + N; i < to; i += N) store(out + i, vec<T, N>{});
}
// out[i] = from[i * step] for n elements that all exist; zeros up to a whole vector.
template <class T> JC_INLINE void pick_columns(T *out, const T *from, i64 step, i64 n) {
  constexpr int N = native_lanes<T>;
  typedef vec<T, N> V;
  i64 i = 0;
  if (step == 1) {
    for (; i + N <= n; i += N) store(out + i, load<N>(from + i));
    if (i < n) store(out + i, load_n<N>(from + i, (int)(n - i)));
    return;
  }
  if (step == 2)
    for (; i + N < n; i += N) {
      V a = load<N>(from + 2 * i), b = load<N>(from + 2 * i + N);
      ints<V> even;
      JC_UNROLL
      for (int k = 0; k < N; k++) even[k] = 2 * k;
      store(out + i, __builtin_shuffle(a, b, even));
    }
  for (i64 k = i; k < n; k++) out[k] = from[k * step];
  zero_columns(out, n, (n + N - 1) / N * N);
}
struct Columns {  // of one phase of a row: zeros up to `left`, then `live` of the source from `first` on
  i64 first, left, live;
};
JC_INLINE Columns columns(const Sweep &s, const Band &b, i64 size, i64 phase) {
  i64 first = s.low() + phase;
  i64 left = first < 0 ? (-first + s.step - 1) / s.step : 0, end = first < size ? (size - first + s.step - 1) / s.step : 0;
  left = left < b.width ? left : b.width;
  end = end < left ? left : end < b.width ? end : b.width;
  return {first + left * s.step, left, end - left};
}
template <class T> JC_INLINE void load_columns(T *out, const T *row, i64 step, i64 width, Columns c) {
  constexpr int N = native_lanes<T>;
  zero_columns(out, 0, c.left);
  pick_columns(out + c.left, row + c.first, step, c.live);
  zero_columns(out, c.left + (c.live + N - 1) / N * N, width);
}
// src is (channels, *size); the band begins at result (d, h).
template <class T> JC_NOINLINE void load_band(T *band, const T *src, const i64 *size, const Sweep *s, const Band &b, i64 channels, i64 d, i64 h) {
  i64 step = s[2].step, top = h * s[1].step + s[1].low();
  Columns only = columns(s[2], b, size[2], 0);
  for (i64 c = 0; c < channels; c++, src += size[0] * size[1] * size[2])
    for (i64 t = 0; t < s[0].taps; t++) {
      i64 z = d * s[0].step + s[0].off + t * s[0].doff;
      const T *row = src + (z * size[1] + top) * size[2];
      T *out = band + c * b.plane + t * b.slice;
      for (i64 y = top; y < top + b.rows; y++, row += size[2], out += b.row) {
        if (z < 0 || z >= size[0] || y < 0 || y >= size[1]) zero_columns(out, 0, b.row);
        else if (b.phases == 1) load_columns(out, row, step, b.width, only);
        else
          for (i64 k = 0; k < b.phases; k++) load_columns(out + k * b.width, row, step, b.width, columns(s[2], b, size[2], k));
      }
    }
}
// Where each tap lies in the band, relative to the result's own place.
JC_INLINE void tap_offsets(i64 *off, const Sweep *s, const Band &b) {
  for (i64 z = 0; z < s[0].taps; z++)
    for (i64 y = 0; y < s[1].taps; y++)
      for (i64 x = 0; x < s[2].taps; x++) {
        i64 j = s[2].off + x * s[2].doff - s[2].low();
        *off++ = z * b.slice + (s[1].off + y * s[1].doff - s[1].low()) * b.row + j % s[2].step * b.width + j / s[2].step;
      }
}

// ---- forward and input gradient ---------------------------------------------------------------
struct Correlation {
  Sweep s[3];
  i64 n, groups, cin, cout;  // channels per group
  i64 src[3], dst[3], k[3];  // spatial sizes
  i64 w_out, w_in;           // strides of the weights over output and input channels
  bool forward;              // all taps, in the filter's order
};
// packed[ci][tap][lane] of one block of output channels, zeros where there are none; tap by tap as the
// sweeps name them.
template <class T> JC_NOINLINE void pack_weights(T *packed, const T *w, const Correlation &q, i64 lanes, i64 block) {
  constexpr i64 MOST = 64;  // taps that are turned at once
  i64 all = q.k[0] * q.k[1] * q.k[2], live = q.cout - block * lanes;
  bool vectors = lanes >= native_lanes<T>;
  w += block * lanes * q.w_out;
  if (vectors && q.w_in == all && q.forward) {
    turn(packed, w, q.w_out, live, lanes, q.cin * all);
    return;
  }
  T turned[MOST * 2 * native_lanes<T>];
  for (i64 ci = 0; ci < q.cin; ci++, w += q.w_in) {
    if (vectors && all <= MOST) turn(turned, w, q.w_out, live, lanes, all);
    for (i64 z = 0; z < q.s[0].taps; z++)
      for (i64 y = 0; y < q.s[1].taps; y++)
        for (i64 x = 0; x < q.s[2].taps; x++, packed += lanes) {
          i64 tap = ((q.s[0].tap + z * q.s[0].dtap) * q.k[1] + q.s[1].tap + y * q.s[1].dtap) * q.k[2] + q.s[2].tap + x * q.s[2].dtap;
          if (vectors && all <= MOST) __builtin_memcpy(packed, turned + tap * lanes, lanes * sizeof(T));
          else
            for (i64 lane = 0; lane < lanes; lane++) packed[lane] = lane < live ? w[lane * q.w_out + tap] : T(0);
        }
  }
}
template <class T> struct Place {  // where a tile is stored: result i at at[i * to + skip]
  T *at;                        // in the first channel
  i64 plane, to, skip;          // distance of channels, and of results
  i64 channels, pixels, after;  // how many of them exist, and elements from `at` to the end of the row
};
// One row of a tile, P results. With `to` == 2 the elements in between are read and written back: they
// belong to the same row, which no other thread touches.
template <int P, class T> JC_INLINE void store_row(const Place<T> &p, T *o, vec<T, P> v) {
  if (p.to == 1) {
    store(o, v);
    return;
  }
  typedef vec<T, 2 * P < native_lanes<T> ? 2 * P : native_lanes<T>> W;  // the processor's own width at most
  constexpr int L = lanes<W>;
  JC_UNROLL
  for (int part = 0; part < 2 * P / L; part++, o += L) {
    ints<W> twice, odd;
    JC_UNROLL
    for (int i = 0; i < L; i++) twice[i] = (part * L + i) / 2, odd[i] = -(i % 2);
    struct Two { vec<T, P> v[L / P]; } two = {};
    two.v[0] = v;
    W wide = __builtin_shuffle(bitcast<W>(two), twice), old = load<L>(o);
    store(o, p.skip ? (odd ? wide : old) : (odd ? old : wide));
  }
}
template <int P, class T, class V> JC_INLINE void store_tile(const Place<T> &p, i64 first, V *acc) {
  constexpr int N = lanes<V>;
  transpose<P>(acc);
  struct Rows { vec<T, P> part[N / P]; };
  T *o = p.at + first * p.plane;
  if ((p.to == 1 || (p.to == 2 && p.after >= 2 * P)) && p.pixels == P && p.channels >= first + N) {
    JC_UNROLL
    for (int i = 0; i < P; i++) {
      Rows rows = bitcast<Rows>(acc[i]);
      JC_UNROLL
      for (int k = 0; k < N / P; k++, o += p.plane) store_row<P>(p, o, rows.part[k]);
    }
  } else {
    T tile[N * P];
    __builtin_memcpy(tile, acc, sizeof tile);
    for (i64 k = 0; k < N && first + k < p.channels; k++)
      for (i64 i = 0; i < p.pixels; i++) o[k * p.plane + i * p.to + p.skip] = tile[k * P + i];
  }
}
template <class T> struct Part {  // of the sum over input channels that a call of a tile adds
  i64 channels;
  bool first, last;
  T *sums;  // where the tile is kept until the last part
};
// P results x OV vectors of channels.
template <class T, int OV, int P> JC_NOINLINE void conv_tile(const T *x, i64 plane, i64 taps, const i64 *off, const T *w, const Place<T> &place, const Part<T> &part) {
  constexpr int N = native_lanes<T>;
  typedef vec<T, N> V;
  V acc[OV * P];
  if (part.first) {
    JC_UNROLL
    for (int i = 0; i < OV * P; i++) acc[i] = V{};
  } else {
    JC_UNROLL
    for (int i = 0; i < OV * P; i++) acc[i] = load<N>(part.sums + i * N);
  }
  i64 cin = part.channels;
  for (i64 c = 0; c < cin; c++, x += plane)
    for (i64 t = 0; t < taps; t++, w += OV * N) {
      const T *p = x + off[t];
      V f[OV];
      JC_UNROLL
      for (int v = 0; v < OV; v++) f[v] = load<N>(w + v * N);
      JC_UNROLL
      for (int i = 0; i < P; i++) {
        V b = broadcast<V>(p + i);
        JC_UNROLL
        for (int v = 0; v < OV; v++) acc[v * P + i] = mac(f[v], b, acc[v * P + i]);
      }
    }
  if (!part.last) {
    JC_UNROLL
    for (int i = 0; i < OV * P; i++) store(part.sums + i * N, acc[i]);
    return;
  }
  JC_UNROLL
  for (int v = 0; v < OV; v++) store_tile<P>(place, v * N, acc + v * P);
}
// XV vectors of results of one row x OB channels, lanes along the row.
template <class T, int OB, int XV> JC_NOINLINE void conv_row(const T *x, i64 plane, i64 cin, i64 taps, const i64 *off, const T *w, const Place<T> &p) {
  constexpr int N = native_lanes<T>;
  typedef vec<T, N> V;
  V acc[OB * XV];
  JC_UNROLL
  for (int i = 0; i < OB * XV; i++) acc[i] = V{};
  for (i64 c = 0; c < cin; c++, x += plane)
    for (i64 t = 0; t < taps; t++, w += OB) {
      V f[XV];
      JC_UNROLL
      for (int k = 0; k < XV; k++) f[k] = load<N>(x + off[t] + k * N);
      JC_UNROLL
      for (int o = 0; o < OB; o++) {
        V b = broadcast<V>(w + o);
        JC_UNROLL
        for (int k = 0; k < XV; k++) acc[o * XV + k] = mac(f[k], b, acc[o * XV + k]);
      }
    }
  JC_UNROLL
  for (int o = 0; o < OB; o++)
    JC_UNROLL
    for (int k = 0; k < XV; k++) {
      V v = acc[o * XV + k];
      T *at = p.at + o * p.plane + k * N * p.to;
      int live = p.pixels - k * N < N ? (int)(p.pixels - k * N) : N;
      if (o >= p.channels) continue;
      if (p.to == 1) store_n(at, v, live);
      else if (p.to == 2 && live == N && p.after >= 2 * (k + 1) * N) store_row<N>(p, at, v);
      else
        for (int i = 0; i < live; i++) at[i * p.to + p.skip] = v[i];
    }
}
template <class T, int OB> JC_INLINE void conv_rows(const T *x, const Correlation &q, i64 plane, i64 taps, const i64 *off, const T *w, Place<T> place) {
  constexpr int N = native_lanes<T>;
  i64 count = q.s[2].count, i = 0;
  for (; i + N < count; i += 2 * N) {
    place.pixels = count - i < 2 * N ? count - i : 2 * N;
    conv_row<T, OB, 2>(x + i, plane, q.cin, taps, off, w, place);
    place.at += 2 * N * place.to;
    place.after -= 2 * N * place.to;
  }
  place.pixels = count - i;
  if (i < count) conv_row<T, OB, 1>(x + i, plane, q.cin, taps, off, w, place);
}
struct View {  // what a band's rows have in common
  const Correlation *q;
  const Band *b;
  const i64 *off;
  i64 taps, plane_out;
};
template <class T> JC_INLINE Place<T> place_of(const View &v, T *dst, i64 h, i64 channels) {
  const Sweep *s = v.q->s;
  return {dst + (h * s[1].to + s[1].at) * v.q->dst[2], v.plane_out, s[2].to, s[2].at, channels, 0, v.q->dst[2]};
}
// Some rows, from `h` on, of one block of channels. Input channels are taken in parts whose weights stay
// in the first-level cache over all tiles of these rows, whose sums wait there too.
template <class T, int OV, int P> JC_NOINLINE void conv_tiles(const View &v, const T *band, const T *w, T *dst, i64 h, i64 rows, i64 channels) {
  constexpr int N = native_lanes<T>, SIZE = OV * P * N;
  alignas(64) T sums[CONV_TILES * SIZE];
  i64 cin = v.q->cin, count = v.q->s[2].count, step = CONV_WEIGHTS / (OV * N * (i64)sizeof(T) * v.taps);
  step = step < 1 ? 1 : step;
  if (rows * ((count + P - 1) / P) > CONV_TILES || cin <= 2 * step) step = cin;
  for (i64 c = 0; c < cin; c += step) {
    Part<T> part = {cin - c < step ? cin - c : step, c == 0, c + step >= cin, sums};
    for (i64 r = 0; r < rows; r++) {
      const T *x = band + c * v.b->plane + r * v.q->s[1].step * v.b->row;
      Place<T> place = place_of(v, dst, h + r, channels);
      for (i64 i = 0; i < count; i += P) {
        place.pixels = count - i < P ? count - i : P;
        conv_tile<T, OV, P>(x + i, v.b->plane, v.taps, v.off, w + c * v.taps * OV * N, place, part);
        place.at += P * place.to;
        place.after -= P * place.to;
        part.sums += SIZE;
      }
    }
  }
}
// Blocks [first, last) of output channels of a band.
template <class T> JC_NOINLINE void correlate_band(const View &v, const T *band, const T *packed, T *dst, i64 h, i64 rows, i64 first, i64 last) {
  constexpr int N = native_lanes<T>, P = conv_pixels<T>;
  const Correlation &q = *v.q;
  i64 lanes = conv_block<T>(q.cout, q.s[2].count), across = (q.s[2].count + P - 1) / P;
  i64 group = lanes < N ? 1 : across < CONV_TILES ? CONV_TILES / across : 1;  // rows at a time
  packed += first * q.cin * v.taps * lanes;
  dst += first * lanes * v.plane_out;
  for (i64 block = first; block < last; block++, packed += q.cin * v.taps * lanes, dst += lanes * v.plane_out)
    for (i64 r = 0; r < rows; r += group) {
      const T *x = band + r * q.s[1].step * v.b->row;
      i64 n = rows - r < group ? rows - r : group, left = q.cout - block * lanes;
      if (lanes == 1) conv_rows<T, 1>(x, q, v.b->plane, v.taps, v.off, packed, place_of(v, dst, h + r, left));
      else if (lanes < N) conv_rows<T, CONV_ROW_CHANNELS>(x, q, v.b->plane, v.taps, v.off, packed, place_of(v, dst, h + r, left));
      else if (lanes == N) conv_tiles<T, 1, N>(v, x, packed, dst, h + r, n, left);
      else conv_tiles<T, 2, P>(v, x, packed, dst, h + r, n, left);
    }
}
template <class T> JC_NOINLINE void correlate(const Correlation &q, const T *src, const T *w, T *dst, ConvRoom<T> room) {
  i64 taps = q.s[0].taps * q.s[1].taps * q.s[2].taps;
  i64 source = q.cin * q.src[0] * q.src[1] * q.src[2], result = q.cout * q.dst[0] * q.dst[1] * q.dst[2];
  i64 lanes = conv_block<T>(q.cout, q.s[2].count), blocks = (q.cout + lanes - 1) / lanes, piece = q.cin * taps * lanes;
  i64 outer = q.n * q.groups * q.s[0].count, parts = (16 + outer - 1) / (outer ? outer : 1);
  i64 rows = band_rows(q.s, q.cin, room.room, 1l << 60, parts), bands = (q.s[1].count + rows - 1) / (rows ? rows : 1);
  Band b = band_of(q.s, rows);
  tap_offsets(room.offsets, q.s, b);
  f64 work = (f64)outer * q.s[1].count * q.s[2].count * q.cout * q.cin * (taps + 1);
  int team = work < 2e5 ? 1 : threads();
  parallel(q.groups * blocks, 1, piece * q.groups * blocks < 30000 ? 1 : team, [=, &q](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) pack_weights(room.packed + i * piece, w + i / blocks * q.cin * q.cout * q.k[0] * q.k[1] * q.k[2], q, lanes, i % blocks);
  });
  i64 some = blocks;  // whose weights stay in the second-level cache while all bands pass
  while (some > 1 && some * piece * (i64)sizeof(T) > CONV_BLOCKS) some = (some + 1) / 2;
  share((blocks + some - 1) / some * outer * bands, team, [=, &q, &b](i64 item) {
    T *band = room.bands + member() * (room.room + room.turned);
    i64 i = item % (outer * bands), first = item / (outer * bands) * some, last = first + some < blocks ? first + some : blocks;
    i64 h = i % bands * rows, d = i / bands % q.s[0].count, map = i / bands / q.s[0].count;  // map: sample and group
    load_band(band, src + map * source, q.src, q.s, b, q.cin, d, h);
    T *out = dst + map * result + (d * q.s[0].to + q.s[0].at) * q.dst[1] * q.dst[2];
    View v = {&q, &b, room.offsets, taps, q.dst[0] * q.dst[1] * q.dst[2]};
    correlate_band(v, band, room.packed + map % q.groups * blocks * piece, out, h, q.s[1].count - h < rows ? q.s[1].count - h : rows, first, last);
  });
}
template <class T> JC_NOINLINE void conv(const Conv &g, const T *x, const T *w, T *out, ConvRoom<T> room) {
  if (room.by_batch) return correlate_maps(g, true, x, w, out, room);
  i64 cin = g.c / g.groups, k = g.k[0] * g.k[1] * g.k[2];
  Correlation q = {{forward_sweep(g, 0), forward_sweep(g, 1), forward_sweep(g, 2)}, g.n, g.groups, cin, g.o / g.groups, {}, {}, {}, cin * k, k, true};
  for (int d = 0; d < 3; d++) q.src[d] = g.in[d], q.dst[d] = g.out[d], q.k[d] = g.k[d];
  correlate(q, x, w, out, room);
}
template <class T> JC_NOINLINE void conv_input_grad(const Conv &g, const T *grad, const T *w, T *out, ConvRoom<T> room) {
  if (room.by_batch) return correlate_maps(g, false, grad, w, out, room);
  i64 cout = g.c / g.groups, k = g.k[0] * g.k[1] * g.k[2];
  Correlation q = {{}, g.n, g.groups, g.o / g.groups, cout, {}, {}, {}, k, cout * k, false};
  for (int d = 0; d < 3; d++) q.src[d] = g.out[d], q.dst[d] = g.in[d], q.k[d] = g.k[d];
  bool gaps = false;  // inputs that no tap reaches
  for (int d = 0; d < 3; d++)
    for (i64 r = 0; r < g.stride[d] && r < g.in[d]; r++) gaps |= !grad_sweep(g, d, r).taps;
  i64 all = g.n * g.c * g.in[0] * g.in[1] * g.in[2];
  if (gaps) parallel(all, 64, team_for(all * (i64)sizeof(T)), [=](i64 lo, i64 hi) { __builtin_memset(out + lo, 0, (hi - lo) * sizeof(T)); });
  for (i64 i = 0; i < g.stride[0] * g.stride[1] * g.stride[2]; i++) {
    q.s[0] = grad_sweep(g, 0, i / (g.stride[1] * g.stride[2]));
    q.s[1] = grad_sweep(g, 1, i / g.stride[2] % g.stride[1]);
    q.s[2] = grad_sweep(g, 2, i % g.stride[2]);
    if (q.s[0].count && q.s[1].count && q.s[2].count && q.s[0].taps && q.s[1].taps && q.s[2].taps) correlate(q, grad, w, out, room);
  }
}
}  // namespace jc
