// Exponentials, logarithms, trigonometry and special functions of the scalar vocabulary.
//
// Included by jitcap_math.h. Polynomials are Remez fits of our own (relative error in the comment);
// reductions follow Cody and Waite, and fdlibm for log. Largest errors found against float64 or
// libm by tests/codegen/targets/cpp/test_vector_math.py, in units of the last place of the result:
//   f32  exp .98  exp2 .84  expm1 1.5  log .75  log1p .77  log2 .51  sin cos 1.42  tan .51
//        tanh 1.4  sinh cosh .51  erf 1.28  erfc .51  asin acos .53  atan 1.2  atan2 1.4  pow .51
//        rsqrt 1.5 (1/sqrt, as eager computes it)
//   f64  exp .95  exp2 .85  expm1 1.6  log .75  log1p .77  log2 .63  sin cos 1.43  tanh 2.4
//        sinh 1.9  cosh 1.3  rsqrt 1.5; tan asin acos atan atan2 erf erfc pow are libm's per lane.
#pragma once

namespace jc {
// ---- tools ------------------------------------------------------------------------------------
// horner(x, c0, c1, ...) = c0 + c1 x + ...
template <class V> JC_INLINE V horner(V, f64 c) { return fill<V>((elem<V>)c); }
template <class V, class... C> JC_INLINE V horner(V x, f64 c, C... rest) {
  return fma(horner(x, rest...), x, fill<V>((elem<V>)c));
}
template <class V> struct Format;  // of V's lane type: mantissa bits, exponent bias
template <> struct Format<f32> { static constexpr int mant = 23, bias = 127; static constexpr f64 magic = 0x1.8p23; };
template <> struct Format<f64> { static constexpr int mant = 52, bias = 1023; static constexpr f64 magic = 0x1.8p52; };
template <class V> constexpr bool single = same<elem<V>, f32>;
template <class V> JC_INLINE V konst(f64 c) { return fill<V>((elem<V>)c); }
template <class V> JC_INLINE V inf() { return fill<V>((elem<V>)__builtin_inf()); }
template <class V> JC_INLINE V nan() { return fill<V>((elem<V>)__builtin_nan("")); }
template <class V> JC_INLINE V at_most(V x, f64 top) { return lesser(konst<V>(top), x); }  // keeps NaN
template <class V> JC_INLINE V at_least(V x, f64 low) { return greater(konst<V>(low), x); }
template <class V> JC_INLINE V pow2(ints<V> k) {  // 2^k for a k in the range of normal numbers
  typedef Format<elem<V>> F;
  return bitcast<V>((k + F::bias) << F::mant);
}
// Nearest integer to x * scale, as a float and as an int. |x * scale| < 2^22 (f32) or 2^51 (f64).
template <class V> JC_INLINE V nearest(V x, f64 scale, ints<V> *k) {
  V magic = konst<V>(Format<elem<V>>::magic), t = fma(x, konst<V>(scale), magic);
  *k = bitcast<ints<V>>(t) - bitcast<ints<V>>(magic);
  return t - magic;
}
// f applied to an f32 vector in f64: two halves, so that each fits the machine.
template <class V, class F> JC_INLINE V via_f64(V x, F f) {
  constexpr int N = lanes<V>;
  if constexpr (N == 1) return (f32)f((f64)x);
  else {
    struct Halves { vec<f32, N / 2> lo, hi; } h = bitcast<Halves>(x);
    h.lo = cvt<f32>(f(cvt<f64>(h.lo)));
    h.hi = cvt<f32>(f(cvt<f64>(h.hi)));
    return bitcast<V>(h);
  }
}
template <class V, class F> JC_INLINE V via_f64(V x, V y, F f) {
  constexpr int N = lanes<V>;
  if constexpr (N == 1) return (f32)f((f64)x, (f64)y);
  else {
    struct Halves { vec<f32, N / 2> lo, hi; } a = bitcast<Halves>(x), b = bitcast<Halves>(y);
    a.lo = cvt<f32>(f(cvt<f64>(a.lo), cvt<f64>(b.lo)));
    a.hi = cvt<f32>(f(cvt<f64>(a.hi), cvt<f64>(b.hi)));
    return bitcast<V>(a);
  }
}
// name_libm(x): scalar libm per lane; f32 lanes through the f64 function.
#define JC_LIBM1(name)                                                                        \
  template <class V> JC_NOINLINE V name##_libm(V a) {                                         \
    return each(a, [](elem<V> x) { return (elem<V>)__builtin_##name((f64)x); });              \
  }
JC_LIBM1(sin) JC_LIBM1(cos) JC_LIBM1(tan) JC_LIBM1(asin) JC_LIBM1(acos) JC_LIBM1(atan)
JC_LIBM1(erf) JC_LIBM1(erfc) JC_LIBM1(lgamma)
#undef JC_LIBM1

// ---- exponentials -----------------------------------------------------------------------------
// x = n ln2 + r, |r| <= ln2/2, k = n. exp_reduce also gives what rounding r lost.
template <class V> constexpr f64 ln2_hi = single<V> ? 0x1.62e430p-1 : 0x1.62e42fefa39efp-1;
template <class V> constexpr f64 ln2_lo = single<V> ? -0x1.05c610p-29 : 0x1.abc9e3b39803fp-56;
template <class V> JC_INLINE V exp_reduce(V x, V *n, ints<V> *k) {
  *n = nearest(x, 0x1.71547652b82fep+0, k);
  return fma(*n, konst<V>(-ln2_lo<V>), fma(*n, konst<V>(-ln2_hi<V>), x));
}
// (e^r - 1 - r) / r^2: 2^-28.3 relative to e^r in f32, 2^-60.8 in f64.
template <class V> JC_INLINE V exp_poly(V r) {
  if constexpr (single<V>)
    return horner(r, 0.49999994, 0.166665196, 0.0416684076, 0.00836879108, 0.00138143636);
  else
    return horner(r, 0.49999999999999983, 0.16666666666666655, 0.041666666666684754, 0.0083333333333401299,
                  0.0013888888882644724, 0.00019841269837746453, 2.4801596754866434e-05, 2.7557293584780846e-06,
                  2.7550777179443593e-07, 2.5091783534361171e-08, 2.2586620868121635e-09);
}
template <class V> JC_INLINE V exp_value(V r) { return fma(r * r, exp_poly(r), r) + konst<V>(1); }  // e^r
// p 2^n for p near 1; k = n may leave the range of exponents, and the result is rounded once.
template <class V> JC_INLINE V scaled(V p, V n, ints<V> k) {
#if JC_AVX512 && JC_X86
  if constexpr (lanes<V> > 1 && sizeof(V) == 64) {
    if constexpr (single<V>) return __builtin_ia32_scalefps512_mask(p, n, p, -1, 4);
    else return __builtin_ia32_scalefpd512_mask(p, n, p, -1, 4);
  }
#endif
  ints<V> half = k >> 1;
  return p * pow2<V>(half) * pow2<V>(ints<V>(k - half));
}
template <class V> JC_INLINE V exp(V x) {
  // What rounds to 0 (masked attention scores: -inf) must not reach `scaled`: an underflowing result
  // costs a microcode assist, 100 times the rest.
  auto gone = lt(x, konst<V>(single<V> ? -104 : -746));
  ints<V> k;
  V n, r = exp_reduce(at_most(select(gone, konst<V>(0), x), single<V> ? 89 : 710), &n, &k);
  return select(gone, konst<V>(0), scaled(exp_value(r), n, k));
}
template <class V> JC_INLINE V exp2(V x) {
  ints<V> k;
  V y = at_least(at_most(x, single<V> ? 129 : 1025), single<V> ? -151 : -1076), n = nearest(y, 1, &k), f = y - n;
  V r = f * konst<V>(ln2_hi<V>), lost = fma(f, konst<V>(ln2_lo<V>), fma(f, konst<V>(ln2_hi<V>), V(-r)));
  return scaled(V((fma(r * r, exp_poly(r), lost) + r) + konst<V>(1)), n, k);
}
template <class V> JC_INLINE V expm1(V x) {
  ints<V> k;
  V y = at_least(at_most(x, single<V> ? 89 : 710), single<V> ? -20 : -40), n = nearest(y, 0x1.71547652b82fep+0, &k);
  V hi = fma(n, konst<V>(-ln2_hi<V>), y), lo = n * konst<V>(-ln2_lo<V>), r = hi + lo, lost = (hi - r) + lo;
  V q = r + fma(r * r, exp_poly(r), lost);  // e^r - 1
  V s = pow2<V>(ints<V>(k - 1)), e = fma(s, q, V(s - konst<V>(0.5)));
  return select(eq(x, konst<V>(0)), x, V(e + e));
}
template <class V> JC_INLINE V tanh(V x) {
  V a = at_most(abs(x), single<V> ? 10 : 22), one = konst<V>(1), two = konst<V>(2);
  if constexpr (single<V>) {  // below 0.6: (tanh(a) - a) / a^3 in a^2, 2^-28.4
    V z = a * a, p = horner(z, -0.333332986, 0.133319244, -0.0537838303, 0.0207959767, -0.00589516386);
    ints<V> k;
    V n, r = exp_reduce(V(a + a), &n, &k), large = one - two / (scaled(exp_value(r), n, k) + one);
    return copysign(select(lt(a, konst<V>(0.58)), fma(V(z * a), p, a), large), x);
  }
  V e = expm1(V(a + a));
  return copysign(V(e / (e + two)), x);
}
template <class V> JC_INLINE V sinh(V x) {
  if constexpr (single<V>) return via_f64(x, [](auto y) { return sinh(y); });
  else {
    V a = abs(x), e = expm1(a), r = konst<V>(0.5) * (e + e / (e + konst<V>(1)));
    auto big = gt(a, konst<V>(709));
    if (any(big)) {
      V h = exp(V(a * konst<V>(0.5)));
      r = select(big, V(konst<V>(0.5) * h * h), r);
    }
    return copysign(r, x);
  }
}
template <class V> JC_INLINE V cosh(V x) {
  if constexpr (single<V>) return via_f64(x, [](auto y) { return cosh(y); });
  else {
    V a = abs(x), e = exp(a), half = konst<V>(0.5), r = half * e + half / e;
    auto big = gt(a, konst<V>(709));
    if (any(big)) {
      V h = exp(V(a * half));
      r = select(big, V(half * h * h), r);
    }
    return r;
  }
}

// ---- logarithms -------------------------------------------------------------------------------
// x = 2^e (1 + r), sqrt(1/2) <= 1 + r < sqrt(2), for finite x > 0; denormals, if there can be any, are
// scaled up first.
template <bool denormals = true, class V> JC_INLINE V log_split(V x, V *e) {
  typedef Format<elem<V>> F;
  auto tiny = lt(x, konst<V>(single<V> ? 0x1p-126 : 0x1p-1022));
  V y = x;
  if constexpr (denormals) y = select(tiny, V(x * konst<V>(single<V> ? 0x1p25 : 0x1p54)), x);
  constexpr elem<ints<V>> root = single<V> ? 0x3f3504f3 : 0x3fe6a09e667f3bcd, mant = (elem<ints<V>>(1) << F::mant) - 1;
  ints<V> i = bitcast<ints<V>>(y) - root;
  // An int of at most 11 bits as a float: exact through the magic number.
  V magic = konst<V>(F::magic);
  *e = bitcast<V>((i >> F::mant) + bitcast<ints<V>>(magic)) - magic;
  if constexpr (denormals) *e -= select(tiny, konst<V>(single<V> ? 25 : 54), konst<V>(0));
  return bitcast<V>((i & mant) + root) - konst<V>(1);
}
// The even part of fdlibm's log in f64: log(1+r) = r - r^2/2 + s (r^2/2 + R), s = r/(2+r); 2^-59.5.
template <class V> JC_INLINE V log_rest(V r, V *half_square) {
  V s = r / (konst<V>(2) + r), z = s * s, h = konst<V>(0.5) * r * r;
  V R = z * horner(z, 0.6666666666666734, 0.39999999999414643, 0.28571428742394062, 0.2222219857260414,
                   0.18183564353289747, 0.15314049913894465, 0.14795955659713136);
  *half_square = h;
  return s * (h + R);
}
// e ln2 + log(1 + r) + c, c small.
template <class V> JC_INLINE V log_join(V e, V r, V c) {
  if constexpr (single<V>) {  // (log(1+r) - r + r^2/2) / r^3: 2^-30.3
    V p = horner(r, 0.333333135, -0.250000089, 0.200021192, -0.166679963, 0.142195523, -0.12405587,
                 0.118881658, -0.116756648, 0.0674664974);
    V z = r * r, y = fma(e, konst<V>(-0x1.05c610p-29), fma(V(z * r), p, c));
    return fma(e, konst<V>(0x1.62e430p-1), V(r + fma(konst<V>(-0.5), z, y)));
  } else {
    V h, rest = log_rest(r, &h);
    V low = rest + fma(e, konst<V>(0x1.a39ef35793c76p-33), c);
    return e * konst<V>(0x1.62e42fee00000p-1) - ((h - low) - r);
  }
}
// log of 0 is -inf, of a negative number NaN; inf and NaN pass.
template <class V> JC_INLINE V log_edges(V x, V value) {
  V zero = konst<V>(0), odd = select(eq(x, zero), V(-inf<V>()), select(lt(x, zero), nan<V>(), x));
  return select(gt(x, zero) & lt(x, inf<V>()), value, odd);
}
template <class V> JC_INLINE V log(V x) {
  V e, r = log_split(x, &e);
  return log_edges(x, log_join(e, r, konst<V>(0)));
}
template <class V> JC_INLINE V log1p(V x) {
  V one = konst<V>(1), u = x + one, e;
  V lost = select(ge(x, one), V(one - (u - x)), V(x - (u - one)));  // u + lost = 1 + x
  V r = log_split(u, &e);
  auto small = eq(e, konst<V>(0));  // then log1p(x) = log(1 + x) with x itself as the argument
  V value = log_join(e, select(small, x, r), select(small, konst<V>(0), V(lost / u)));
  value = select(eq(x, konst<V>(0)), x, value);
  return log_edges(u, value);
}
// log2 of a normal f64 > 0, for results in f32: 2^-37.8.
template <class V> JC_INLINE V log2_short(V x) {
  V e, r = log_split<false>(x, &e), s = r / (konst<V>(2) + r), z = s * s;
  return fma(s, horner(z, 2.8853900817901383, 0.96179667329578966, 0.57708359331478631, 0.41167221764677125,
                       0.34073953400879547), e);
}
template <class V> JC_INLINE V log2(V x) {
  if constexpr (single<V>) return log_edges(x, via_f64(x, [](auto y) { return log2_short(y); }));
  else {
    V e, r = log_split(x, &e), h, rest = log_rest(r, &h);
    V hi = bitcast<V>(bitcast<ints<V>>(V(r - h)) & ~0xffffffffl), lo = ((r - hi) - h) + rest;
    V c1 = konst<V>(0x1.7154765200000p+0), c2 = konst<V>(0x1.705fc2eefa200p-33);
    V top = hi * c1, low = (lo + hi) * c2 + lo * c1, w = e + top;
    return log_edges(x, V(w + (low + ((e - w) + top))));
  }
}

// ---- power ------------------------------------------------------------------------------------
// x^y of normal f64, x > 0, for a result in f32: 2^-31, where 2^y alone is known to 2^-34.5.
template <class V> JC_INLINE V pow_short(V x, V y) {
  V w = at_least(at_most(V(y * log2_short(x)), 200), -200);
  ints<V> k;
  V n = nearest(w, 1, &k);
  return pow2<V>(k) * horner(V(w - n), 0.99999999996168187, 0.69314718072844705, 0.24022651198157563,
                             0.055504103534480424, 0.0096180272536711027, 0.0013333922563494712,
                             0.00015469291140990095, 1.5201921603867825e-05);
}
// `r` = |x|^y, with C's special cases: a negative x needs an integral y.
template <class V> JC_INLINE V pow_edges(V x, V y, V r) {
  V one = konst<V>(1), zero = konst<V>(0), a = abs(x), half = y * konst<V>(0.5);
  r = select(eq(a, zero) | eq(a, inf<V>()), select(gt(a, one) ^ lt(y, zero), inf<V>(), zero), r);
  auto whole = eq(trunc(y), y), odd = whole & ne(trunc(half), half);
  r = select(odd, copysign(r, x), r);
  r = select(lt(x, zero) & gt(x, V(-inf<V>())) & ~whole, nan<V>(), r);
  r = select(is_nan(x) | is_nan(y), nan<V>(), r);
  auto trivial = eq(y, zero) | eq(x, one) | (eq(a, one) & eq(abs(y), inf<V>()));
  return select(trivial, one, r);
}
template <class V> JC_INLINE V pow(V a, V b) {
  if constexpr (!is_float<elem<V>>) return JC_EACH2(int_pow);
  else if constexpr (single<V>)
    return pow_edges(a, b, via_f64(V(abs(a)), b, [](auto x, auto y) { return pow_short(x, y); }));
  else return JC_EACH2(__builtin_pow);
}
template <class V> JC_INLINE V rsqrt(V x) { return konst<V>(1) / sqrt(x); }
template <class V> JC_INLINE V sigmoid(V x) { return konst<V>(1) / (konst<V>(1) + exp(V(-x))); }

// ---- trigonometry -----------------------------------------------------------------------------
// x = k pi/2 + r, |r| <= pi/4, for |x| up to trig_limit; pi/2 in three parts.
template <class V> constexpr f64 trig_limit = single<V> ? 0x1p16 : 0x1p24;
template <class V> JC_INLINE V trig_reduce(V x, ints<V> *k) {
  V n = nearest(x, 0x1.45f306dc9c883p-1, k);
  V r = fma(n, konst<V>(single<V> ? -0x1.921fb6p+0 : -0x1.921fb54442d18p+0), x);
  r = fma(n, konst<V>(single<V> ? 0x1.777a5cp-25 : -0x1.1a62633145c07p-54), r);
  return fma(n, konst<V>(single<V> ? 0x1.ee59dap-50 : 0x1.f1976b7ed8fbcp-110), r);
}
template <class V> JC_INLINE V sin_poly(V r, V z) {  // 2^-37 relative in f32, 2^-58 in f64
  if constexpr (single<V>)
    return fma(V(r * z), horner(z, -0.166666672, 0.00833332911, -0.000198393274, 2.71823706e-06), r);
  else
    return fma(V(r * z), horner(z, -0.16666666666666632, 0.008333333333322316, -0.00019841269829725097,
                                2.7557313662001482e-06, -2.505075325423021e-08, 1.5896504303482741e-10), r);
}
template <class V> JC_INLINE V cos_poly(V, V z) {  // 2^-33 in f32, 2^-63.9 in f64
  V p, one = konst<V>(1), h = konst<V>(0.5) * z, w = one - h;
  if constexpr (single<V>) p = horner(z, 0.0416666456, -0.00138873095, 2.44324128e-05);
  else
    p = horner(z, 0.041666666666666595, -0.0013888888888872895, 2.480158728874839e-05, -2.7557314148677717e-07,
               2.0875696579385267e-09, -1.1358310814526816e-11);
  return w + fma(V(z * z), p, V((one - w) - h));
}
template <class V> JC_INLINE V quadrant(V r, ints<V> k) {  // sin(r + k pi/2)
  V z = r * r, swapped = select(ne(k & 1, k & 0), cos_poly(r, z), sin_poly(r, z));
  return bitcast<V>(bits(swapped) ^ (bitcast<uints<V>>(k & 2) << (8 * sizeof(elem<V>) - 2)));
}
template <class V> JC_INLINE V sin(V x) {
  ints<V> k;
  V r = trig_reduce(x, &k), y = select(eq(x, konst<V>(0)), x, quadrant(r, k));
  auto far = gt(abs(x), konst<V>(trig_limit<V>));
  return any(far) ? select(far, sin_libm(x), y) : y;
}
template <class V> JC_INLINE V cos(V x) {
  ints<V> k;
  V r = trig_reduce(x, &k), y = quadrant(r, ints<V>(k + 1));
  auto far = gt(abs(x), konst<V>(trig_limit<V>));
  return any(far) ? select(far, cos_libm(x), y) : y;
}
template <class V> JC_INLINE V tan(V x) {
  if constexpr (single<V>) return via_f64(x, [](auto y) { return sin(y) / cos(y); });
  else return tan_libm(x);
}
// asin for f32, computed in f64: (asin(s) - s) / s^3 in z = s^2 up to 1/4 is good to 2^-31.7.
// `co`: acos(x) = pi/2 - asin(x), without cancellation near 1.
template <bool co, class V> JC_INLINE V arc_f64(V x) {
  V a = abs(x), half = konst<V>(0.5), quarter = konst<V>(0x1.921fb54442d18p+0);
  auto big = gt(a, half);
  V z = select(big, V((konst<V>(1) - a) * half), V(a * a)), s = select(big, sqrt(z), a);
  V p = fma(V(s * z), horner(z, 0.1666665987189741, 0.075005109227921613, 0.044515719561301959,
                             0.031817613453312542, 0.014402612770795757, 0.037565176053007666), s);
  if constexpr (!co) return copysign(select(big, V(quarter - (p + p)), p), x);
  V near = select(lt(x, konst<V>(0)), V(quarter + quarter - (p + p)), V(p + p));
  return select(big, near, V(quarter - copysign(p, x)));
}
template <class V> JC_INLINE V asin(V x) {
  if constexpr (single<V>) return via_f64(x, [](auto y) { return arc_f64<false>(y); });
  else return asin_libm(x);
}
template <class V> JC_INLINE V acos(V x) {
  if constexpr (single<V>) return via_f64(x, [](auto y) { return arc_f64<true>(y); });
  else return acos_libm(x);
}
// atan(t) for 0 <= t <= 1: 2^-28.7.
template <class V> JC_INLINE V atan_poly(V t) {
  V z = t * t;
  return fma(V(t * z), horner(z, -0.333333015, 0.199986383, -0.142652467, 0.109575793, -0.0841946825,
                              0.0582347065, -0.0314558521, 0.0110645192, -0.00182722986), t);
}
template <class V> JC_INLINE V atan(V x) {
  if constexpr (!single<V>) return atan_libm(x);
  else {
    V a = abs(x), one = konst<V>(1);
    auto big = gt(a, one);
    V p = atan_poly(select(big, V(one / a), a));
    return copysign(select(big, V(konst<V>(0x1.921fb6p+0) - (p - konst<V>(-0x1.777a5cp-25))), p), x);
  }
}
template <class V> JC_INLINE V atan2(V y, V x) {
  if constexpr (!single<V>) return each(y, x, [](f64 a, f64 b) { return __builtin_atan2(a, b); });
  else {
    V a = abs(y), b = abs(x), zero = konst<V>(0), low = konst<V>(-0x1.777a5cp-25), quarter = konst<V>(0x1.921fb6p+0);
    auto steep = gt(a, b);
    V t = select(steep, b, a) / select(steep, a, b);
    t = select(eq(a, b), select(eq(a, zero), zero, konst<V>(1)), t);  // 0/0 and inf/inf
    V p = atan_poly(t);
    p = select(steep, V(quarter - (p - low)), p);
    auto left = ne(sign_of(x), bits(zero));
    p = select(left, V(quarter + quarter - (p - (low + low))), p);
    return select(is_nan(x) | is_nan(y), nan<V>(), copysign(p, y));
  }
}

// ---- special functions ------------------------------------------------------------------------
template <class V> JC_INLINE V erf(V x) {
  if constexpr (!single<V>) return erf_libm(x);
  else {
    // log erfc(a) = -a + a P(a) up to 4: 2^-31.1 relative to erf, which is 1 - 2^k (1 + q).
    V a = at_most(abs(x), 4);
    V p = horner(a, -0.12837917, -0.636619837, -0.102771256, 0.0191176027, 0.0002532725, -0.00179962913,
                 0.0007408956, -0.000167573046, 2.13760864e-05, -1.19535431e-06);
    ints<V> k;
    V y = fma(p, a, V(-a)), lost = fma(p, a, V(V(-a) - y));
    V n, r = exp_reduce(y, &n, &k), q = r + fma(r * r, exp_poly(r), lost), s = pow2<V>(k);
    return copysign(fma(V(-s), q, V(konst<V>(1) - s)), x);
  }
}
template <class V> JC_INLINE V erfc(V x) { return erfc_libm(x); }
template <class V> JC_INLINE V lgamma(V x) { return lgamma_libm(x); }
// digamma: reflection, recurrence up to 10, then the asymptotic series (relative error < 1e-14).
JC_NOINLINE inline f64 digamma_1(f64 x) {
  f64 r = 0;
  if (x == 0) return __builtin_copysign(__builtin_inf(), -x);
  if (x < 0) {
    f64 f = x - __builtin_floor(x);
    if (f == 0 || x == -__builtin_inf()) return __builtin_nan("");
    r = -3.14159265358979323846 / __builtin_tan(3.14159265358979323846 * f);
    x = 1 - x;
  }
  for (; x < 10; x += 1) r -= 1 / x;
  f64 z = 1 / (x * x);
  f64 s = horner(z, 1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132, -691. / 32760, 1. / 12);
  return r + __builtin_log(x) - 0.5 / x - z * s;
}
template <class V> JC_INLINE V digamma(V x) {
  return each(x, [](elem<V> y) { return (elem<V>)digamma_1((f64)y); });
}
// erfinv: Winitzki's estimate, then three Halley steps on erfc in the tail, erf in the middle.
JC_NOINLINE inline f64 erfinv_1(f64 x) {
  f64 a = __builtin_fabs(x);
  if (!(a < 1)) return a == 1 ? __builtin_copysign(__builtin_inf(), x) : __builtin_nan("");
  f64 l = __builtin_log1p(-a * a), c = 4.3307467508 + 0.5 * l;
  f64 y = __builtin_sqrt(__builtin_sqrt(c * c - l / 0.147) - c);
  for (int i = 0; i < 3 && y > 0; i++) {
    f64 miss = a > 0.5 ? (1 - a) - __builtin_erfc(y) : __builtin_erf(y) - a;
    f64 step = miss / (1.12837916709551257390 * __builtin_exp(-y * y));
    y -= step / (1 + y * step);
  }
  return __builtin_copysign(y > 0 ? y : a * 0.88622692545275801365, x);
}
template <class V> JC_INLINE V erfinv(V x) {
  return each(x, [](elem<V> y) { return (elem<V>)erfinv_1((f64)y); });
}

// name_apart(x): the same, as a call. A kernel with very many of them compiles in a fifth of the time.
#define JC_APART1(name) template <class V> JC_NOINLINE V name##_apart(V x) { return name(x); }
#define JC_APART2(name) template <class V> JC_NOINLINE V name##_apart(V x, V y) { return name(x, y); }
JC_APART1(exp) JC_APART1(expm1) JC_APART1(log) JC_APART1(log1p) JC_APART1(log2) JC_APART1(tanh)
JC_APART1(sinh) JC_APART1(cosh) JC_APART1(sin) JC_APART1(cos) JC_APART1(tan) JC_APART1(asin)
JC_APART1(acos) JC_APART1(atan) JC_APART1(erf) JC_APART1(digamma) JC_APART1(erfinv)
JC_APART2(atan2) JC_APART2(pow)
#undef JC_APART1
#undef JC_APART2
}  // namespace jc
