// Library steps: writes at places given by integer tensors. All operands contiguous; out starts as a copy of x.
//
// Every index is checked before anything is written (out may be x's own memory). Writes to one place
// happen in the order of the index tensor, by one thread: the team shares a dimension that the indices
// do not name, so results do not depend on the number of threads.
#pragma once
#include "jitcap_dot.h"

namespace jc {
struct Keep { template <class V> static JC_INLINE V apply(V, V b) { return b; } };

template <class I> JC_NOINLINE bool all_inside(const I *index, i64 n, i64 low, i64 size, void *arena, i64 site) {
  for (i64 i = 0; i < n; i++) {
    i64 at = (i64)index[i];
    if (at < low || at >= size) {
      fail(arena, JC_INDEX, site, at, size);
      return false;
    }
  }
  return true;
}
template <class T> JC_NOINLINE void copy_all(T *out, const T *x, i64 n) {
  if (out == x) return;
  parallel(n, 64, team_for(2 * n * (i64)sizeof(T)), [=](i64 lo, i64 hi) { __builtin_memcpy(out + lo, x + lo, (hi - lo) * sizeof(T)); });
}
template <class Op, class T> JC_INLINE void combine(T *out, const T *x) { store(out, Op::apply(load<1>(out), load<1>(x))); }

// ---- scatter ----------------------------------------------------------------------------------
struct ScatterDim { i64 size, index, out, src; };  // size of the index tensor, and the strides of all three
template <class Op, class T, class I> JC_NOINLINE void scatter_dims(const ScatterDim *dims, i64 rank, i64 dim, i64 step, T *out, const I *index, const T *src) {
  ScatterDim d = dims[0];
  i64 out_step = dim == 0 ? 0 : d.out;
  if (rank == 1) {
    for (i64 i = 0; i < d.size; i++) combine<Op>(out + i * out_step + (i64)index[i * d.index] * step, src + i * d.src);
    return;
  }
  for (i64 i = 0; i < d.size; i++) scatter_dims<Op>(dims + 1, rank - 1, dim - 1, step, out + i * out_step, index + i * d.index, src + i * d.src);
}
// `cut` is the dimension that the team shares, -1 if there is none; `size` the extent of dimension `dim` of x.
template <class Op, class T, class I> JC_NOINLINE void scatter(const ScatterDim *dims, i64 rank, i64 dim, i64 cut, i64 size, i64 total, const T *x, const I *index, const T *src, T *out, void *arena, i64 site) {
  i64 n = 1;
  for (i64 d = 0; d < rank; d++) n *= dims[d].size;
  if (!all_inside(index, n, 0, size, arena, site)) return;
  copy_all(out, x, total);
  if (n == 0) return;
  i64 count = cut < 0 ? 1 : dims[cut].size;
  parallel(count, 1, team_for(n * (i64)(2 * sizeof(T) + sizeof(I))), [=](i64 lo, i64 hi) {
    ScatterDim own[16];
    __builtin_memcpy(own, dims, rank * sizeof(ScatterDim));
    ScatterDim c = cut < 0 ? ScatterDim{} : own[cut];
    if (cut >= 0) own[cut].size = hi - lo;
    scatter_dims<Op>(own, rank, dim, dims[dim].out, out + lo * c.out, index + lo * c.index, src + lo * c.src);
  });
}

// ---- index_add: x (outer, size, inner), src (outer, n, inner) ----------------------------------
template <class Op, class A, class T> JC_INLINE void add_line(A *out, const T *src, i64 n) {
  constexpr int W = JC_BYTES / (sizeof(A) > sizeof(T) ? sizeof(A) : sizeof(T));
  if (n < W) {  // a masked store is not forwarded to the next masked load of the same line
    for (i64 i = 0; i < n; i++) store(out + i, Op::apply(load<1>(out + i), load<1>(src + i)));
    return;
  }
  i64 i = 0;
  for (; i + W <= n; i += W) store(out + i, Op::apply(load<W>(out + i), load<W>(src + i)));
  if (i < n) store_n(out + i, Op::apply(load_n<W>(out + i, (int)(n - i)), load_n<W>(src + i, (int)(n - i))), (int)(n - i));
}
template <class Op, class A, class T, class I> JC_NOINLINE void add_rows(i64 outer, i64 size, i64 n, i64 inner, const I *index, const T *src, A *out) {
  i64 bytes = 2 * outer * n * inner * (i64)sizeof(T);
  if (inner >= outer)
    parallel(inner, 16, team_for(bytes), [=](i64 lo, i64 hi) {
      for (i64 o = 0; o < outer; o++)
        for (i64 i = 0; i < n; i++) add_line<Op>(out + (o * size + (i64)index[i]) * inner + lo, src + (o * n + i) * inner + lo, hi - lo);
    });
  else
    parallel(outer, 1, team_for(bytes), [=](i64 lo, i64 hi) {
      for (i64 o = lo; o < hi; o++)
        for (i64 i = 0; i < n; i++) add_line<Op>(out + (o * size + (i64)index[i]) * inner, src + (o * n + i) * inner, inner);
    });
}
// Op: Sum, or Or on bytes that are booleans. `wide`: room for the sums of 16-bit floats, which are rounded once; otherwise out itself.
template <class Op, class A, class T, class I> JC_NOINLINE void index_add(i64 outer, i64 size, i64 n, i64 inner, const T *x, const I *index, const T *src, T *out, A *wide, void *arena, i64 site) {
  if (!all_inside(index, n, 0, size, arena, site)) return;
  i64 total = outer * size * inner;
  if constexpr (same<A, T>) {
    copy_all(out, x, total);
    add_rows<Op, A>(outer, size, n, inner, index, src, out);
  } else {
    for (i64 i = 0; i < total; i++) wide[i] = load<1>(x + i);
    add_rows<Op, A>(outer, size, n, inner, index, src, wide);
    for (i64 i = 0; i < total; i++) store(out + i, wide[i]);
  }
}

// ---- index_put --------------------------------------------------------------------------------
// f(p, offset of p by the strides that follow the sizes in `dims`) for every position p in order.
template <class F> JC_INLINE void each_place(const i64 *dims, i64 rank, F f) {
  i64 count = 1, n = rank ? dims[rank - 1] : 1, step = rank ? dims[2 * rank - 1] : 0;
  for (i64 d = 0; d < rank; d++) count *= dims[d];
  for (i64 p = 0; p < count; p += n) {
    i64 at = 0;
    for (i64 d = rank - 2, rest = p / n; d >= 0; rest /= dims[d], d--) at += rest % dims[d] * dims[rank + d];
    for (i64 i = 0; i < n; i++) f(p + i, at + i * step);
  }
}
// places[p] += index[p'] * step for every picked position p.
template <class I> JC_NOINLINE bool add_places(i64 *places, const i64 *dims, i64 rank, const I *index, i64 n, i64 size, i64 step, void *arena, i64 site) {
  if (!all_inside(index, n, -size, size, arena, site)) return false;
  each_place(dims, rank, [=](i64 p, i64 at) {
    i64 i = (i64)index[at];
    places[p] += (i < 0 ? i + size : i) * step;
  });
  return true;
}
JC_NOINLINE inline void spread_places(i64 *from, const i64 *dims, i64 rank) {
  each_place(dims, rank, [=](i64 p, i64 at) { from[p] = at; });
}
struct PutDim { i64 size, out, src; };
// What is contiguous in both goes a line at a time; of anything else, all places of one index of the rest are near each other.
template <class Op, class T> JC_NOINLINE void put_dims(i64 count, const i64 *places, const i64 *from, const PutDim *dims, i64 rank, T *out, const T *src) {
  const bool lines = sizeof(T) >= 4 && rank == 1 && dims[0].out == 1 && dims[0].src == 1;
  if (rank > 0 && !lines) {
    for (i64 i = 0; i < dims[0].size; i++) put_dims<Op>(count, places, from, dims + 1, rank - 1, out + i * dims[0].out, src + i * dims[0].src);
    return;
  }
  for (i64 p = 0; p < count; p++) {
    if constexpr (sizeof(T) >= 4)
      if (lines) {
        add_line<Op, T>(out + places[p], src + from[p], dims[0].size);
        continue;
      }
    combine<Op>(out + places[p], src + from[p]);
  }
}
// out[places[p] + rest] = src[from[p] + rest]; the team shares the rest's dimension `cut`.
template <class Op, class T> JC_NOINLINE void index_put(i64 count, const i64 *places, const i64 *from, const PutDim *rest, i64 rank, i64 cut, i64 total, const T *x, const T *src, T *out) {
  copy_all(out, x, total);
  i64 n = count;
  for (i64 d = 0; d < rank; d++) n *= rest[d].size;
  if (n == 0) return;
  parallel(cut < 0 ? 1 : rest[cut].size, 1, team_for(3 * n * (i64)sizeof(T)), [=](i64 lo, i64 hi) {
    PutDim own[16];
    __builtin_memcpy(own, rest, rank * sizeof(PutDim));
    PutDim c = cut < 0 ? PutDim{} : own[cut];
    if (cut >= 0) own[cut].size = hi - lo;
    put_dims<Op>(count, places, from, own, rank, out + lo * c.out, src + lo * c.src);
  });
}
}  // namespace jc
