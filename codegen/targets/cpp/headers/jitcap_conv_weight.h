// Library steps: the weight gradient of a convolution, dw[o, c, tap] = sum over samples and pixels of
// grad[o, pixel] * x[c, pixel + tap]. See jitcap_conv.h for the bands it shares with the forward pass.
//
// The register tile is a few (c, tap) pairs x OV vectors of output channels; it walks along the pixels
// of a band with the gradient transposed to (pixel, channel). Samples are summed in a fixed number of
// chunks (from the shapes alone), each into a partial result of its own, added up in order at the end.
#pragma once
#include "jitcap_conv.h"

namespace jc {
constexpr int CONV_PAIRS = JC_BYTES == 64 ? 8 : 4;

// sum[pair][lane] += over rows and pixels; U pixels at a time keep enough sums in flight.
template <class T, int OV, int U> JC_NOINLINE void weight_tile(const T *x, const i64 *off, i64 row, i64 rows, i64 count, const T *g, T *sum, i64 pairs) {
  constexpr int N = native_lanes<T>, K = CONV_PAIRS;
  typedef vec<T, N> V;
  V acc[U * OV * K];
  JC_UNROLL
  for (int i = 0; i < U * OV * K; i++) acc[i] = V{};
  const T *p[K];
  JC_UNROLL
  for (int k = 0; k < K; k++) p[k] = x + off[k < pairs ? k : 0];
  for (i64 r = 0; r < rows; r++) {
    i64 i = 0;
    for (; i + U <= count; i += U, g += U * OV * N) {
      V f[U * OV];
      JC_UNROLL
      for (int v = 0; v < U * OV; v++) f[v] = load<N>(g + v * N);
      JC_UNROLL
      for (int k = 0; k < K; k++)
        JC_UNROLL
        for (int u = 0; u < U; u++) {
          V b = broadcast<V>(p[k] + i + u);
          JC_UNROLL
          for (int v = 0; v < OV; v++) acc[(u * OV + v) * K + k] = mac(f[u * OV + v], b, acc[(u * OV + v) * K + k]);
        }
    }
    for (; i < count; i++, g += OV * N) {
      JC_UNROLL
      for (int k = 0; k < K; k++)
        JC_UNROLL
        for (int v = 0; v < OV; v++) acc[v * K + k] = mac(load<N>(g + v * N), broadcast<V>(p[k] + i), acc[v * K + k]);
    }
    JC_UNROLL
    for (int k = 0; k < K; k++) p[k] += row;
  }
  JC_UNROLL
  for (int k = 0; k < K; k++)
    JC_UNROLL
    for (int v = 0; v < OV; v++) {
      V total = acc[v * K + k];
      if constexpr (U == 2) total = total + acc[(OV + v) * K + k];
      T *o = sum + (k * OV + v) * N;
      if (k < pairs) store(o, load<N>(o) + total);
    }
}
// One output channel: lanes along the row.
template <class T> JC_NOINLINE void weight_row(const T *x, const i64 *off, i64 row, i64 rows, i64 count, const T *g, T *sum, i64 pairs) {
  constexpr int N = native_lanes<T>, K = CONV_PAIRS;
  typedef vec<T, N> V;
  V acc[K];
  JC_UNROLL
  for (int k = 0; k < K; k++) acc[k] = V{};
  for (i64 r = 0; r < rows; r++, x += row, g += count)
    for (i64 i = 0; i < count; i += N) {
      int n = count - i < N ? count - i : N;
      V f = load_n<N>(g + i, n);
      JC_UNROLL
      for (int k = 0; k < K; k++) acc[k] = mac(f, load_n<N>(x + off[k < pairs ? k : 0] + i, n), acc[k]);
    }
  JC_UNROLL
  for (int k = 0; k < K; k++)
    if (k < pairs) sum[k] += reduce<Sum>(acc[k]);
}
struct WeightGrad {
  Correlation q;
  Band b;
  i64 lanes, blocks, rows, bands, chunks;
  JC_INLINE i64 taps() const { return q.s[0].taps * q.s[1].taps * q.s[2].taps; }
  JC_INLINE i64 piece() const { return q.cin * taps() * lanes; }  // of one block of output channels
};
// Adds one band of one sample and group into sum[block][c0 .. c1][tap][lane].
template <class T> JC_NOINLINE void weight_band(const WeightGrad &w, const i64 *off, const T *band, const T *g, T *turned, T *sum, i64 rows, i64 c0, i64 c1) {
  constexpr int N = native_lanes<T>;
  i64 plane = w.q.dst[0] * w.q.dst[1] * w.q.dst[2], taps = w.taps(), count = w.q.s[2].count, row = w.q.s[1].step * w.b.row;
  for (i64 block = 0; block < w.blocks; block++, sum += w.piece(), g += w.lanes * plane) {
    if (w.lanes > 1) turn(turned, g, plane, w.q.cout - block * w.lanes, w.lanes, rows * count);
    for (i64 k = c0 * taps; k < c1 * taps; k += CONV_PAIRS) {
      i64 pairs = c1 * taps - k < CONV_PAIRS ? c1 * taps - k : CONV_PAIRS;
      T *o = sum + k * w.lanes;
      if (w.lanes == 1) weight_row(band, off + k, row, rows, count, g, o, pairs);
      else if (w.lanes == N) weight_tile<T, 1, 2>(band, off + k, row, rows, count, turned, o, pairs);
      else weight_tile<T, 2, 1>(band, off + k, row, rows, count, turned, o, pairs);
    }
  }
}
template <class T> JC_NOINLINE void weight_chunk(const WeightGrad &w, const T *grad, const T *x, ConvRoom<T> room, T *band, i64 chunk, i64 c0, i64 c1) {
  const Correlation &q = w.q;
  i64 units = q.n * q.s[0].count * w.bands, taps = w.taps(), size = q.src[0] * q.src[1] * q.src[2], plane = q.dst[0] * q.dst[1] * q.dst[2];
  T *sum = room.packed + chunk * q.groups * w.blocks * w.piece();
  for (i64 i = 0; i < q.groups * w.blocks; i++) __builtin_memset(sum + i * w.piece() + c0 * taps * w.lanes, 0, (c1 - c0) * taps * w.lanes * sizeof(T));
  for (i64 u = chunk * units / w.chunks; u < (chunk + 1) * units / w.chunks; u++) {
    i64 h = u % w.bands * w.rows, d = u / w.bands % q.s[0].count, n = u / w.bands / q.s[0].count;
    i64 rows = q.s[1].count - h < w.rows ? q.s[1].count - h : w.rows;
    for (i64 group = 0; group < q.groups; group++) {
      i64 map = n * q.groups + group;
      load_band(band + c0 * w.b.plane, x + (map * q.cin + c0) * size, q.src, q.s, w.b, c1 - c0, d, h);
      const T *g = grad + map * q.cout * plane + (d * q.dst[1] + h) * q.dst[2];
      weight_band(w, room.offsets, band, g, band + room.room, sum + group * w.blocks * w.piece(), rows, c0, c1);
    }
  }
}
// out[lane][pair] = sum over chunks, which lie `all` apart, of sum[pair][lane]; only `live` lanes exist.
template <class T> JC_NOINLINE void add_chunks(T *out, const T *sum, i64 all, i64 chunks, i64 lanes, i64 pairs, i64 live) {
  constexpr int N = native_lanes<T>;
  if (lanes == 1) {
    for (i64 k = 0; k < pairs; k++) {
      out[k] = sum[k];
      for (i64 c = 1; c < chunks; c++) out[k] += sum[c * all + k];
    }
    return;
  }
  for (i64 k = 0; k < pairs; k += N)
    for (i64 first = 0; first < lanes; first += N) {
      vec<T, N> v[N];
      int n = pairs - k < N ? (int)(pairs - k) : N;
      JC_UNROLL
      for (int i = 0; i < N; i++) {
        const T *p = sum + (k + (i < n ? i : 0)) * lanes + first;
        v[i] = load<N>(p);
        for (i64 c = 1; c < chunks; c++) v[i] = v[i] + load<N>(p + c * all);
      }
      transpose<N>(v);
      JC_UNROLL
      for (int i = 0; i < N; i++)
        if (first + i < live) store_n(out + (first + i) * pairs + k, v[i], n);
    }
}
template <class T> JC_NOINLINE void conv_weight_grad(const Conv &g, const T *grad, const T *x, T *out, ConvRoom<T> room, i64 chunks) {
  if (room.by_batch) return weight_grad_maps(g, grad, x, out, room);
  WeightGrad w = {{{forward_sweep(g, 0), forward_sweep(g, 1), forward_sweep(g, 2)}, g.n, g.groups, g.c / g.groups, g.o / g.groups, {}, {}, {}, 0, 0, true}};
  Correlation &q = w.q;
  for (int d = 0; d < 3; d++) q.src[d] = g.in[d], q.dst[d] = g.out[d], q.k[d] = g.k[d];
  w.lanes = conv_block<T>(q.cout, 0);
  w.blocks = (q.cout + w.lanes - 1) / w.lanes;
  w.chunks = chunks;
  i64 outer = q.n * q.s[0].count, taps = w.taps(), piece = w.piece();
  w.rows = band_rows(q.s, q.cin, room.room, room.turned / w.lanes, (chunks + outer - 1) / (outer ? outer : 1));
  w.bands = (q.s[1].count + w.rows - 1) / w.rows;
  w.b = band_of(q.s, w.rows);
  tap_offsets(room.offsets, q.s, w.b);
  for (i64 c = q.cin - 1; c >= 0; c--)
    for (i64 t = 0; t < taps; t++) room.offsets[c * taps + t] = room.offsets[t] + c * w.b.plane;
  f64 work = (f64)outer * q.s[1].count * q.s[2].count * g.o * q.cin * (taps + 1);
  int team = work < 2e5 ? 1 : threads();
  i64 parts = (team + chunks - 1) / chunks < q.cin ? (team + chunks - 1) / chunks : q.cin;  // of the input channels
  share(chunks * parts, team, [=, &w](i64 i) {
    T *band = room.bands + member() * (room.room + room.turned);
    weight_chunk(w, grad, x, room, band, i / parts, i % parts * w.q.cin / parts, (i % parts + 1) * w.q.cin / parts);
  });
  i64 all = q.groups * w.blocks * piece;
  parallel(q.groups * w.blocks, 1, team_for(2 * all * chunks * (i64)sizeof(T)), [=, &w](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) {
      i64 first = i % w.blocks * w.lanes;
      T *o = out + (i / w.blocks * w.q.cout + first) * w.q.cin * taps;
      add_chunks(o, room.packed + i * piece, all, chunks, w.lanes, w.q.cin * taps, w.q.cout - first);
    }
  });
}
}  // namespace jc
