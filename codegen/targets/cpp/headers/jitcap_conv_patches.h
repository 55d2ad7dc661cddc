// Library steps: convolutions to a few places, and their gradients by the input, as products.
//
// Where a map has fewer places than a register tile has rows, packing the filters costs more than to
// multiply them once. So they are read as they lie, (o, c x taps): times what the places see of the
// map, c x taps for each; transposed, times the gradient, which is then added up where they saw it.
#pragma once
#include "jitcap_conv_maps.h"

namespace jc {
// reads[tap][place]: the element of a map that a place reads there, or -1 in the padding.
inline void conv_reads(const Conv &g, i64 *reads) {
  i64 taps = g.k[0] * g.k[1] * g.k[2], places = g.out[0] * g.out[1] * g.out[2];
  for (i64 t = 0; t < taps; t++)
    for (i64 p = 0; p < places; p++) {
      const i64 tap[3] = {t / (g.k[1] * g.k[2]), t / g.k[2] % g.k[1], t % g.k[2]};
      const i64 place[3] = {p / (g.out[1] * g.out[2]), p / g.out[2] % g.out[1], p % g.out[2]};
      i64 at = 0;
      bool inside = true;
      for (int d = 0; d < 3; d++) {
        i64 i = place[d] * g.stride[d] + tap[d] * g.dil[d] - g.pad[d];
        inside &= i >= 0 && i < g.in[d];
        at = at * g.in[d] + i;
      }
      reads[t * places + p] = inside ? at : -1;
    }
}
// patches[n][place][c][tap]
template <class T> JC_NOINLINE void conv_patches(const Conv &g, const T *x, T *patches, i64 *reads) {
  i64 taps = g.k[0] * g.k[1] * g.k[2], places = g.out[0] * g.out[1] * g.out[2], size = g.in[0] * g.in[1] * g.in[2];
  conv_reads(g, reads);
  parallel(g.n * g.c, 1, team_for(g.n * g.c * taps * places * 2 * (i64)sizeof(T)), [=, &g](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++)
      for (i64 p = 0; p < places; p++) {
        T *to = patches + ((i / g.c * places + p) * g.c + i % g.c) * taps;
        for (i64 t = 0; t < taps; t++) to[t] = reads[t * places + p] < 0 ? T(0) : x[i * size + reads[t * places + p]];
      }
  });
}
// out[n][c] += patches[n][c][tap][place], in this order.
template <class T> JC_NOINLINE void conv_from_patches(const Conv &g, const T *patches, T *out, i64 *reads) {
  i64 all = g.k[0] * g.k[1] * g.k[2] * g.out[0] * g.out[1] * g.out[2], size = g.in[0] * g.in[1] * g.in[2];
  conv_reads(g, reads);
  parallel(g.n * g.c, 1, team_for(g.n * g.c * all * 2 * (i64)sizeof(T)), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) {
      for (i64 at = 0; at < size; at++) out[i * size + at] = 0;
      for (i64 r = 0; r < all; r++)
        if (reads[r] >= 0) out[i * size + reads[r]] += patches[i * all + r];
    }
  });
}
}  // namespace jc
