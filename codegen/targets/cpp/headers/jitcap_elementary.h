// Exponentials, logarithms, trigonometry and special functions of the scalar vocabulary.
//
// Included by jitcap_math.h. Polynomials are Remez fits of our own (relative error in the comment);
// reductions follow Cody and Waite, and fdlibm for log. Largest errors found against float64 or
// libm by tests/codegen/targets/cpp/test_vector_math.py, in units of the last place of the result:
//   f32  exp .98  exp2 .76  expm1 1.5  log .75  log1p .77  log2 .51  sin cos 1.42  tan .51
//        tanh 1.4  sinh cosh .51  erf 1.28  asin acos .51  atan 1.24  atan2 1.5  pow .51
//        rsqrt 1.5 (1/sqrt, as eager computes it)  lgamma .54
//   f64  exp .95  exp2 .66  expm1 1.6  log .75  log1p .77  log2 .7  sin cos 1.43  tan 1.23
//        tanh 2.4  sinh 1.9  cosh 1.3  erf 1.2  asin .61  acos .99  atan .65  atan2 .99  pow .75
//        rsqrt 1.5; lgamma is libm's per lane, and so are sin, cos and tan of large numbers.
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
// a + b as a rounded sum and what rounding lost: of any two, and where |a| >= |b| or a is 0.
template <class V> JC_INLINE V two_sum(V a, V b, V *lost) {
  V s = a + b, t = s - a;
  *lost = (a - (s - t)) + (b - t);
  return s;
}
template <class V> JC_INLINE V fast_sum(V a, V b, V *lost) {
  V s = a + b;
  *lost = b - (s - a);
  return s;
}
// a b, and what rounding lost.
template <class V> JC_INLINE V two_product(V a, V b, V *lost) {
  V p = a * b;
  *lost = fma(a, b, V(-p));
  return p;
}
// name_libm(x): scalar libm per lane; f32 lanes through the f64 function.
#define JC_LIBM1(name)                                                                        \
  template <class V> JC_NOINLINE V name##_libm(V a) {                                         \
    return each(a, [](elem<V> x) { return (elem<V>)__builtin_##name((f64)x); });              \
  }
JC_LIBM1(sin) JC_LIBM1(cos) JC_LIBM1(tan) JC_LIBM1(asin) JC_LIBM1(acos) JC_LIBM1(atan) JC_LIBM1(erf) JC_LIBM1(lgamma)
#undef JC_LIBM1
// f64 functions of many fmas: where the machine has none, libm is faster.
#if defined(__FMA__) || defined(__aarch64__)
template <class V> constexpr bool by_libm = false;
#else
template <class V> constexpr bool by_libm = !single<V>;
#endif

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
// 2^(x + low), low below a unit of x's last place.
template <class V> JC_INLINE V exp2_sum(V x, V low) {
  ints<V> k;
  V y = at_least(at_most(x, single<V> ? 129 : 1025), single<V> ? -151 : -1076), n = nearest(y, 1, &k);
  V lost, f = fast_sum(V(y - n), low, &lost), more, r = two_product(f, konst<V>(ln2_hi<V>), &more);
  V small, one = fast_sum(konst<V>(1), r, &small);
  lost = fma(lost, konst<V>(ln2_hi<V>), fma(f, konst<V>(ln2_lo<V>), more));
  return scaled(V(one + (fma(r * r, exp_poly(r), lost) + small)), n, k);
}
template <class V> JC_INLINE V exp2(V x) { return exp2_sum(x, konst<V>(0)); }
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
// sinh (`odd`) or cosh in f64 for a result in f32: (2^k +- 2^-k) / 2 times sinh(r) (2^-37.7) and cosh(r) (2^-34.6).
template <bool odd, class V> JC_INLINE V hyperbolic_short(V x) {
  ints<V> k;
  V n, r = exp_reduce(at_most(abs(x), 95), &n, &k), z = r * r;
  V s = r * horner(z, 0.9999999999955157, 0.16666666786389536, 0.00833328348072713, 0.00019907623668197978);
  V c = horner(z, 0.9999999999604099, 0.5000000106620993, 0.04166622041619073, 0.0013948482131865441);
  V up = pow2<V>(ints<V>(k - 1)), down = pow2<V>(ints<V>(-k - 1));
  if constexpr (odd) return copysign(fma(s, V(up + down), V(c * (up - down))), x);
  return fma(c, V(up + down), V(s * (up - down)));
}
template <class V> JC_INLINE V sinh(V x) {
  if constexpr (single<V>) return via_f64(x, [](auto y) { return hyperbolic_short<true>(y); });
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
  if constexpr (single<V>) return via_f64(x, [](auto y) { return hyperbolic_short<false>(y); });
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
// log2(x) of f64 > 0 as a sum, to 2^-65 of itself: 2 / ln 2 (s + s^3 / 3 + s^5 P(s^2)) for s = f / (2 + f),
// of which 2^-73.6 are P's.
template <class V> JC_INLINE V log2_sum(V x, V *low) {
  V e, f = log_split(x, &e), d_low, d = fast_sum(konst<V>(2), f, &d_low);
  V inverse = konst<V>(1) / d, s = f * inverse, s_low = (fma(V(-s), d, f) - s * d_low) * inverse;
  V z_low, square = two_product(s, s, &z_low), z = fast_sum(square, fma(V(s + s), s_low, z_low), &z_low);
  V third = konst<V>(0x1.5555555555555p-2), q_low, q = two_product(z, third, &q_low);
  V P = horner(z, 0.1999999999999999, 0.14285714285722534, 0.11111111108772892, 0.09090909434625742,
               0.07692278469388013, 0.066681574857105, 0.05837432663655854, 0.059943222149195105);
  V u_low, u = fast_sum(q, V(z * z * P), &u_low);
  u_low += fma(z, konst<V>(0x1.5555555555555p-56), fma(z_low, third, q_low));
  V p_low, p = two_product(s, u, &p_low), l_low, l = fast_sum(s, p, &l_low);
  l_low += fma(s, u_low, fma(s_low, u, V(s_low + p_low)));
  V h_low, h = two_product(l, konst<V>(0x1.71547652b82fep+1), &h_low), e_low, sum = fast_sum(e, h, &e_low);
  *low = fma(l, konst<V>(0x1.777d0ffda0d24p-55), fma(l_low, konst<V>(0x1.71547652b82fep+1), h_low)) + e_low;
  return sum;
}
template <class V> JC_NOINLINE V pow_long(V x, V y) {  // x^y of f64, x > 0
  V low, high = log2_sum(x, &low), lost, w = two_product(y, high, &lost), inside = at_least(at_most(w, 1100), -1100);
  return exp2_sum(inside, select(eq(w, inside), fma(y, low, lost), konst<V>(0)));
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
  if constexpr (!is_float<elem<V>>) return int_pow(a, b);
  else if constexpr (single<V>)
    return pow_edges(a, b, via_f64(V(abs(a)), b, [](auto x, auto y) { return pow_short(x, y); }));
  else if constexpr (by_libm<V>) return JC_EACH2(__builtin_pow);
  else return pow_edges(a, b, pow_long(V(abs(a)), b));
}
template <class V> JC_INLINE V rsqrt(V x) { return konst<V>(1) / sqrt(x); }

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
// f64: r and what its rounding lost, (tan(r) - r) / r^3 in r^2 to 2^-59.8 of tan(r), and the odd quadrants'
// -1 / tan(r) with the residual of the division.
template <class V> JC_INLINE V tan_f64(V x) {
  ints<V> k;
  V n = nearest(x, 0x1.45f306dc9c883p-1, &k), one = konst<V>(1);
  V p_low, p = two_product(n, konst<V>(-0x1.1a62633145c07p-54), &p_low);
  V low, r = two_sum(fma(n, konst<V>(-0x1.921fb54442d18p+0), x), p, &low);
  low += fma(n, konst<V>(0x1.f1976b7ed8fbcp-110), p_low);
  V z = r * r, q = V(r * z) * horner(z, 0.3333333333333338, 0.13333333333325034, 0.05396825397304751,
      0.02186948839592879, 0.00886323796888737, 0.0035921004749084494, 0.0014560479197744153,
      0.0005888550399375734, 0.0002437778357256088, 8.350723322775106e-05, 6.728795509114977e-05,
      -2.568439222725652e-05, 4.86525334671985e-05, -2.4270259186176105e-05, 9.795743114368346e-06);
  V t_low, t = fast_sum(r, fma(z, low, V(q + low)), &t_low), u = V(-one) / t;
  u = fma(u, fma(u, t_low, fma(u, t, one)), u);
  V y = select(ne(k & 1, k & 0), u, t);
  auto far = gt(abs(x), konst<V>(trig_limit<V>));
  return any(far) ? select(far, tan_libm(x), select(eq(x, konst<V>(0)), x, y)) : select(eq(x, konst<V>(0)), x, y);
}
template <class V> JC_INLINE V tan(V x) {
  if constexpr (single<V>) return via_f64(x, [](auto y) { return sin(y) / cos(y); });
  else if constexpr (by_libm<V>) return tan_libm(x);
  else return tan_f64(x);
}
// turn - 2 (s + q), turn + low a multiple of pi/2.
template <bool brief, class V> JC_INLINE V arc_rest(V turn, V low, V s, V q) {
  if constexpr (brief) return turn - konst<V>(2) * (s + q);
  V lost, rest = fast_sum(turn, V(-(s + s)), &lost);
  return rest - ((q + q) - (low + lost));
}
// asin in f64: (asin(s) - s) / s^3 in z = s^2 up to 1/4, to 2^-31.7 of asin(s) for a result in f32 (`brief`),
// to 2^-59.8 for one in f64. `co`: acos(x) = pi/2 - asin(x), without cancellation near 1.
template <bool co, bool brief, class V> JC_INLINE V arc(V x) {
  V a = abs(x), half = konst<V>(0.5), quarter = konst<V>(0x1.921fb54442d18p+0), low = konst<V>(0x1.1a62633145c07p-54), zero = konst<V>(0), P;
  auto big = gt(a, half);
  V z = select(big, V((konst<V>(1) - a) * half), V(a * a)), s = select(big, sqrt(z), a);
  if constexpr (brief)
    P = horner(z, 0.1666665987189741, 0.075005109227921613, 0.044515719561301959, 0.031817613453312542,
               0.014402612770795757, 0.037565176053007666);
  else
    P = horner(z, 0.16666666666666763, 0.07499999999970261, 0.04464285717512147, 0.030381942683591536,
               0.022372215660887047, 0.01735160008322174, 0.013980961538356257, 0.01139777536934238,
               0.0107865321735198, 0.0036830310275263577, 0.02176352451337856, -0.021077326914771426, 0.03267691090730369);
  V q = V(s * z) * P;
  if constexpr (!brief) q += select(big, V(fma(V(-s), s, z) / (s + s + konst<V>(0x1p-1000))), zero);  // of the root
  V p = s + q;
  if constexpr (!co) return copysign(select(big, arc_rest<brief>(quarter, low, s, q), p), x);
  V left = arc_rest<brief>(V(quarter + quarter), V(low + low), s, q);
  return select(big, select(lt(x, zero), left, V(p + p)), V(quarter - (copysign(p, x) - low)));
}
template <class V> JC_INLINE V asin(V x) {
  if constexpr (single<V>) return via_f64(x, [](auto y) { return arc<false, true>(y); });
  else if constexpr (by_libm<V>) return asin_libm(x);
  else return arc<false, false>(x);
}
template <class V> JC_INLINE V acos(V x) {
  if constexpr (single<V>) return via_f64(x, [](auto y) { return arc<true, true>(y); });
  else if constexpr (by_libm<V>) return acos_libm(x);
  else return arc<true, false>(x);
}
// atan(t) for 0 <= t <= 1: 2^-28.7.
template <class V> JC_INLINE V atan_poly(V t) {
  V z = t * t;
  return fma(V(t * z), horner(z, -0.333333015, 0.199986383, -0.142652467, 0.109575793, -0.0841946825,
                              0.0582347065, -0.0314558521, 0.0110645192, -0.00182722986), t);
}
// atan(a / b) of f64, a and b >= 0, not both 0 and below infinity: base + atan(t), |t| <= 1/2, of which
// (atan(t) - t) / t^3 in t^2 is good to 2^-62.1; t with the residual of its division.
template <class V> JC_INLINE V angle(V a, V b) {
  auto steep = gt(a, V(b + b)), tilted = gt(V(a + a), b) & ~steep;
  V zero = konst<V>(0), lost, sum = two_sum(a, b, &lost);
  V n = select(steep, V(-b), select(tilted, V(a - b), a)), d = select(steep, a, select(tilted, sum, b));
  V inverse = konst<V>(1) / d, t = n * inverse, z = t * t;
  V low = (fma(V(-t), d, n) - select(tilted, V(t * lost), zero)) * inverse;
  V base = select(steep, konst<V>(0x1.921fb54442d18p+0), select(tilted, konst<V>(0x1.921fb54442d18p-1), zero));
  V P = horner(z, -0.33333333333333315, 0.19999999999993445, -0.14285714284977732, 0.11111111069362739,
               -0.09090907692052158, 0.07692277476341045, -0.0666622370198897, 0.05877809359285789,
               -0.05230030335677432, 0.04589534176468483, -0.0371213223071814, 0.02365935020677705,
               -0.008368793778094373);
  low = fma(base, konst<V>(0x1.678afae35cdd1p-55), fma(V(t * z), P, low));
  V sum_low, y = fast_sum(base, t, &sum_low);
  return y + (sum_low + low);
}
template <class V> JC_INLINE V atan(V x) {
  V a = abs(x), one = konst<V>(1);
  if constexpr (by_libm<V>) return atan_libm(x);
  else if constexpr (!single<V>) return copysign(angle(at_most(a, 0x1p900), one), x);
  else {
    auto big = gt(a, one);
    V p = atan_poly(select(big, V(one / a), a));
    return copysign(select(big, V(konst<V>(0x1.921fb6p+0) - (p - konst<V>(-0x1.777a5cp-25))), p), x);
  }
}
template <class V> JC_INLINE V atan2(V y, V x) {
  if constexpr (by_libm<V>) return each(y, x, [](f64 a, f64 b) { return __builtin_atan2(a, b); });
  V a = abs(y), b = abs(x), zero = konst<V>(0), p;
  V quarter = konst<V>(single<V> ? 0x1.921fb6p+0 : 0x1.921fb54442d18p+0);
  V low = konst<V>(single<V> ? -0x1.777a5cp-25 : 0x1.1a62633145c07p-54);
  if constexpr (single<V>) {
    auto steep = gt(a, b);
    V t = select(steep, b, a) / select(steep, a, b);
    t = select(eq(a, b), select(eq(a, zero), zero, konst<V>(1)), t);  // 0/0 and inf/inf
    p = atan_poly(t);
    p = select(steep, V(quarter - (p - low)), p);
  } else {
    auto endless = eq(a, inf<V>()) | eq(b, inf<V>());
    V most = greater(a, b), one = konst<V>(1);
    // No sum and no inverse is infinite.
    V scale = select(gt(most, konst<V>(0x1p900)), konst<V>(0x1p-200), select(lt(most, konst<V>(0x1p-900)), konst<V>(0x1p200), one));
    a = select(endless, select(eq(a, inf<V>()), one, zero), V(a * scale));
    b = select(endless, select(eq(b, inf<V>()), one, zero), V(b * scale));
    p = angle(a, select(eq(most, zero), one, b));
  }
  auto left = ne(sign_of(x), bits(zero));
  p = select(left, V(quarter + quarter - (p - (low + low))), p);
  return select(is_nan(x) | is_nan(y), nan<V>(), copysign(p, y));
}

// ---- special functions ------------------------------------------------------------------------
template <class V> JC_INLINE V erf(V x) {
  if constexpr (by_libm<V>) return erf_libm(x);
  // log erfc(a) = -a + a P(a), up to where erf is 1: 2^-31.1 (f32) and 2^-57.5 (f64) of erf, which is
  // 1 - 2^k (1 + q).
  V a = at_most(abs(x), single<V> ? 4 : 5.95), p;
  if constexpr (single<V>)
    p = horner(a, -0.12837917, -0.636619837, -0.102771256, 0.0191176027, 0.0002532725, -0.00179962913,
               0.0007408956, -0.000167573046, 2.13760864e-05, -1.19535431e-06);
  else
    p = horner(a, -0.12837916709551256, -0.6366197723675836, -0.10277260330178874, 0.01912844700506971,
               0.00020919469485038955, -0.001696206385805617, 0.0005901255532025566, -2.58786053824249e-05,
               -6.449185798635414e-05, 2.9724040603013907e-05, -3.4072572363064805e-06, -2.835149924387952e-06,
               1.7415567341646072e-06, -3.363719778138237e-07, -1.3717728968434616e-07, 1.417593474378341e-07,
               -6.573236025440876e-08, 2.096226611081075e-08, -4.997601844887467e-09, 9.082020052974517e-10,
               -1.2483787805193335e-10, 1.2610665515255529e-11, -8.845333136022867e-13, 3.8504213683665526e-14,
               -7.833979070565434e-16);
  ints<V> k;
  V y = fma(p, a, V(-a)), lost = fma(p, a, V(V(-a) - y));
  V n, r = exp_reduce(y, &n, &k), q = r + fma(r * r, exp_poly(r), lost), s = pow2<V>(k);
  return copysign(fma(V(-s), q, V(konst<V>(1) - s)), x);
}
// lgamma in f64 for a result in f32, to 2^-49: Stirling's series (2^-50.8) from 4 on, of x + 4 where x is
// less; below 0 by lgamma(x) + lgamma(-x) = log(pi / |x sin(pi x)|).
template <class V> JC_NOINLINE V lgamma_short(V x) {
  V a = abs(x), one = konst<V>(1), three = konst<V>(3);
  auto small = lt(a, konst<V>(4)), negative = lt(x, konst<V>(0));
  V z = select(small, V(a + konst<V>(4)), a), inverse = one / z;
  V product = select(small, V(a * (a + three) * (fma(a, a, V(three * a)) + konst<V>(2))), one);
  if (any(negative)) {
    V sine = abs(sin(V((a - round(a)) * konst<V>(0x1.921fb54442d18p+1))));
    product = select(negative, V(konst<V>(0x1.921fb54442d18p+1) * product / (a * sine)), product);
  }
  V series = inverse * horner(V(inverse * inverse), 0.0833333333333029, -0.0027777777589280944,
                              0.0007936474007747003, -0.0005949658766534136, 0.0008302881908194592,
                              -0.0016464578431566047, 0.0027324442905287583);
  V e, r = log_split<false>(z, &e);
  V value = fma(V(z - konst<V>(0.5)), V(log_join(e, r, konst<V>(0)) - one), konst<V>(0.41893853320467274178)) + series;
  return select(negative, V(log(product) - value), V(value - log(product)));
}
template <class V> JC_INLINE V lgamma(V x) {
  if constexpr (single<V>)
    return select(eq(abs(x), inf<V>()), inf<V>(),
                  select(eq(x, konst<V>(1)) | eq(x, konst<V>(2)), konst<V>(0), via_f64(x, [](auto y) { return lgamma_short(y); })));
  else return lgamma_libm(x);
}

// name_alone(x): of one value, libm's, which differs in the last place.
JC_INLINE f64 pow_alone(f64 x, f64 y) { return __builtin_pow(x, y); }
JC_INLINE f64 erf_alone(f64 x) { return __builtin_erf(x); }
// name_apart(x): the same, as a call. A kernel with very many of them compiles in a fifth of the time.
#define JC_APART1(name) template <class V> JC_NOINLINE V name##_apart(V x) { return name(x); }
#define JC_APART2(name) template <class V> JC_NOINLINE V name##_apart(V x, V y) { return name(x, y); }
JC_APART1(exp) JC_APART1(exp2) JC_APART1(expm1) JC_APART1(log) JC_APART1(log1p) JC_APART1(log2) JC_APART1(tanh)
JC_APART1(sinh) JC_APART1(cosh) JC_APART1(sin) JC_APART1(cos) JC_APART1(tan) JC_APART1(asin)
JC_APART1(acos) JC_APART1(atan) JC_APART1(erf) JC_APART1(lgamma)
JC_APART2(atan2) JC_APART2(pow)
#undef JC_APART1
#undef JC_APART2
}  // namespace jc
