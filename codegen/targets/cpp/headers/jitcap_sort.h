// Library steps: stable sort along one dimension of a contiguous (outer, n, inner) tensor, with the permutation.
//
// Elements become unsigned keys whose order is the wanted one (both zeros equal, NaN above all), kept
// beside their places; short lines are sorted by insertion, long ones by least significant byte first
// radix passes (Knuth, The Art of Computer Programming 3, 5.2.5). Passes over equal bytes are skipped.
// Where only the first `keep` are wanted, those found so far are sorted whenever there are twice as many.
#pragma once
#include "jitcap_dot.h"

namespace jc {
template <class K> struct SortItem { K key; u32 at; };

template <class T> struct SortKey {  // ints and bool
  typedef typename IntOf<sizeof(T)>::u type;
  static JC_INLINE type of(T x) { return T(-1) < T(0) ? type(type(x) ^ (type(1) << (8 * sizeof(T) - 1))) : type(x); }
};
template <class U, U Infinity> struct FloatKey {
  typedef U type;
  static JC_INLINE U of_bits(U bits) {
    constexpr U sign = U(1) << (8 * sizeof(U) - 1);
    U size = bits & U(~sign);
    if (size > Infinity) return U(~U(0));
    if (size == 0) return sign;
    return bits & sign ? U(~bits) : U(bits | sign);
  }
};
template <> struct SortKey<f32> : FloatKey<u32, 0x7f800000u> { static JC_INLINE u32 of(f32 x) { return of_bits(bitcast<u32>(x)); } };
template <> struct SortKey<f64> : FloatKey<u64, 0x7ff0000000000000ul> { static JC_INLINE u64 of(f64 x) { return of_bits(bitcast<u64>(x)); } };
template <> struct SortKey<f16> : FloatKey<u16, 0x7c00> { static JC_INLINE u16 of(f16 x) { return of_bits(x.bits); } };
template <> struct SortKey<bf16> : FloatKey<u16, 0x7f80> { static JC_INLINE u16 of(bf16 x) { return of_bits(x.bits); } };

template <class K> JC_NOINLINE void insertion_sort(SortItem<K> *a, i64 n) {
  for (i64 i = 1; i < n; i++) {
    SortItem<K> x = a[i];
    i64 j = i;
    for (; j > 0 && a[j - 1].key > x.key; j--) a[j] = a[j - 1];
    a[j] = x;
  }
}
// Sorts a by means of b; returns where the result is.
template <class K> JC_NOINLINE SortItem<K> *radix_sort(SortItem<K> *a, SortItem<K> *b, i64 n) {
  i64 counts[sizeof(K)][256];
  __builtin_memset(counts, 0, sizeof counts);
  for (i64 i = 0; i < n; i++)
    for (unsigned byte = 0; byte < sizeof(K); byte++) counts[byte][(a[i].key >> (8 * byte)) & 255]++;
  for (unsigned byte = 0; byte < sizeof(K); byte++) {
    i64 *count = counts[byte], total = 0;
    if (count[(a[0].key >> (8 * byte)) & 255] == n) continue;
    for (int d = 0; d < 256; d++) {
      i64 c = count[d];
      count[d] = total;
      total += c;
    }
    for (i64 i = 0; i < n; i++) b[count[(a[i].key >> (8 * byte)) & 255]++] = a[i];
    SortItem<K> *t = a;
    a = b;
    b = t;
  }
  return a;
}
template <class K> JC_INLINE SortItem<K> *sort_items(SortItem<K> *a, SortItem<K> *b, i64 n) {
  if (n > 48) return radix_sort(a, b, n);
  insertion_sort(a, n);
  return a;
}
// The first `keep` of n elements in stable order. An element that equals the last of those found so far comes after it.
template <class T, class K> JC_NOINLINE SortItem<K> *sort_first(SortItem<K> *items, i64 n, i64 keep, i64 held, K flip, const T *x, i64 inner) {
  SortItem<K> *a = items, *b = items + held;
  i64 count = 0;
  if (held == n) {
    for (i64 i = 0; i < n; i++) a[i] = {K(SortKey<T>::of(x[i * inner]) ^ flip), (u32)i};
    return sort_items(a, b, n);
  }
  K bound = K(~K(0));
  bool full = false;
  for (i64 i = 0; i < n; i++) {
    K key = K(SortKey<T>::of(x[i * inner]) ^ flip);
    if (full && key >= bound) continue;
    a[count++] = {key, (u32)i};
    if (count < held) continue;
    SortItem<K> *sorted = sort_items(a, b, count);
    b = sorted == a ? b : a;
    a = sorted;
    count = keep;
    bound = a[keep - 1].key;
    full = true;
  }
  return sort_items(a, b, count);
}
// `room` holds 2 * n items for each thread.
template <class T> JC_NOINLINE void sort(i64 outer, i64 n, i64 inner, i64 keep, bool descending, const T *x, T *values, i64 *order, void *room) {
  typedef typename SortKey<T>::type K;
  parallel(outer * inner, 1, team_for(16 * outer * n * inner), [=](i64 lo, i64 hi) {
    SortItem<K> *items = (SortItem<K> *)room + member() * 2 * n;
    K flip = descending ? K(~K(0)) : K(0);
    i64 held = 2 * keep < 48 ? 48 : 2 * keep;
    if (held > n || keep == 0) held = n;  // then all are sorted once
    for (i64 line = lo; line < hi; line++) {
      i64 at = line / inner * n * inner + line % inner, to = line / inner * keep * inner + line % inner;
      SortItem<K> *sorted = sort_first<T, K>(items, n, keep, held, flip, x + at, inner);
      for (i64 i = 0; i < keep; i++) {
        values[to + i * inner] = x[at + (i64)sorted[i].at * inner];
        order[to + i * inner] = sorted[i].at;
      }
    }
  });
}
}  // namespace jc
