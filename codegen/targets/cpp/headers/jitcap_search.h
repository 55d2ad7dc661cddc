// Library steps: where values stand among sorted boundaries.
#pragma once
#include "jitcap_dot.h"

namespace jc {
// In sorted data NaN comes last.
template <class T> JC_INLINE bool before(T a, T b) { return a < b || (b != b && a == a); }
// `rows` rows of n boundaries and of m values each (rows == 1: the same boundaries for all): the number of
// boundaries below each value; Right: or equal to it.
template <bool Right, class T> JC_NOINLINE void searchsorted(i64 rows, i64 n, i64 m, const T *bounds, const T *values, i64 *out) {
  parallel(rows * m, 64, team_for(rows * m * (i64)(16 + 4 * sizeof(T))), [=](i64 lo, i64 hi) {
    for (i64 i = lo; i < hi; i++) {
      const T *row = bounds + i / m * n;
      T v = values[i];
      i64 low = 0, high = n;
      while (low < high) {
        i64 middle = low + (high - low) / 2;
        bool below = Right ? !before(v, row[middle]) : before(row[middle], v);
        if (below) low = middle + 1;
        else high = middle;
      }
      out[i] = low;
    }
  });
}
}  // namespace jc
