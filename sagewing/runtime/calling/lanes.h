/* Numbers of several records, or of several members of a bank, each in a lane of a vector of GNU C
 * (gcc, clang). */

#ifndef SAGEWING_LANES_H
#define SAGEWING_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define SW_BYTES 64
#elif defined(__AVX__)
#define SW_BYTES 32
#elif defined(__SSE2__) || defined(__ARM_NEON) || defined(SW_RECORDS)
#define SW_BYTES 16
#endif

/* Integers of 32 bits, also where a lane has 64, and flags, which are 0 or -1 like comparisons of
 * vectors. Without vectors there is one lane. */
#ifdef SW_DOUBLE
typedef int64_t sw_int;
typedef uint64_t sw_uint;
#define SW_WHOLE(a) ((sw_ints)((a) << 32) >> 32)
#else
typedef int32_t sw_int;
typedef uint32_t sw_uint;
#define SW_WHOLE(a) ((sw_ints)(a))
#endif

#ifdef SW_BYTES
#define SW_VECTOR __attribute__((vector_size(SW_BYTES)))
#ifndef SW_INLINE
#define SW_INLINE static inline __attribute__((unused))
#endif
enum { SW_LANES = SW_BYTES / sizeof(sw_real) };
typedef sw_real sw_lanes SW_VECTOR;
typedef sw_int sw_ints SW_VECTOR;
typedef sw_uint sw_uints SW_VECTOR;

/* The same number in every lane; minus zero, because -0 plus zero is 0. */
#define SW_ALL(a) ((a) - (sw_lanes){0})
#define SW_ALL_INTS(a) ((a) + (sw_ints){0})
#define SW_FLAGS(comparison) ((sw_ints)(comparison))
#define SW_NEGATIVE(a) ((sw_ints)((sw_ints)(a) < 0))

SW_INLINE sw_ints sw_lanes_choose(sw_ints flag, sw_ints a, sw_ints b)
{
    return (flag & a) | (~flag & b);
}

SW_INLINE sw_lanes sw_lanes_select(sw_ints flag, sw_lanes a, sw_lanes b)
{
    return (sw_lanes)sw_lanes_choose(flag, (sw_ints)a, (sw_ints)b);
}

SW_INLINE int sw_lanes_any(sw_ints flag)
{
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)flag, (__m512i)flag) != 0;
#elif defined(__AVX__)
    return !_mm256_testz_si256((__m256i)flag, (__m256i)flag);
#else
    union { sw_ints lanes; uint64_t each[SW_BYTES / 8]; } all = {flag};
    uint64_t any = 0;
    for (int i = 0; i < SW_BYTES / 8; ++i) any |= all.each[i];
    return any != 0;
#endif
}

SW_INLINE sw_lanes sw_lanes_of_flags(sw_ints a)
{
    return (sw_lanes)(a & (sw_ints)SW_ALL((sw_real)1));
}

SW_INLINE sw_lanes sw_lanes_of_ints(sw_ints a) { return __builtin_convertvector(a, sw_lanes); }

SW_INLINE sw_lanes sw_lanes_fabs(sw_lanes a)
{
    return (sw_lanes)((sw_ints)a & ~(sw_ints)SW_ALL((sw_real)-0.0));
}

#ifndef SW_DOUBLE
/* log a = n log 2 + log(1 + t), with 1 + t between the roots of 1/2 and 2, and a polynomial in t. */
SW_INLINE sw_lanes sw_lanes_log(sw_lanes a)
{
    const sw_ints small = (sw_ints)(a < 1.17549435e-38F);
    const sw_uints bits = (sw_uints)sw_lanes_select(small, a * 8388608.0F, a);
    const sw_ints n = (sw_ints)(bits - 0x3f3504f3U) >> 23;
    const sw_lanes t = (sw_lanes)(bits - ((sw_uints)n << 23)) - 1.0F;
    const sw_lanes m = sw_lanes_of_ints(n + (small & -23)), t2 = t * t;
    const sw_lanes p = (((((((7.0376836292e-2F * t - 1.1514610310e-1F) * t + 1.1676998740e-1F) * t
                            - 1.2420140846e-1F) * t + 1.4249322787e-1F) * t - 1.6668057665e-1F) * t
                         + 2.0000714765e-1F) * t - 2.4999993993e-1F) * t + 3.3333331174e-1F;
    const sw_lanes y = (p * t * t2 + m * -2.12194440e-4F) - 0.5F * t2 + t + m * 0.693359375F;
    /* Not a positive number: log(infinity) = infinity, log(0) = -infinity, all others NaN */
    const sw_lanes odd = sw_lanes_select((sw_ints)(a == 0), SW_ALL(-INFINITY),
                                         sw_lanes_select((sw_ints)(a > 0), a, SW_ALL(NAN)));
    return sw_lanes_select((sw_ints)(a > 0) & (sw_ints)(a < INFINITY), y, odd);
}
#endif

/* A function of numbers applied in every lane; compilers vectorise loops over arrays. */
#define SW_LIFT(to, result, function, type)                                        \
    SW_INLINE result to(type a)                                                \
    {                                                                              \
        union { type lanes; __typeof__(a[0] + 0) each[SW_LANES]; } in = {a};       \
        union { result lanes; __typeof__(((result){0})[0] + 0) each[SW_LANES]; } out; \
        for (int l = 0; l < SW_LANES; ++l) out.each[l] = function(in.each[l]);     \
        return out.lanes;                                                          \
    }
#define SW_LIFT2(to, result, function, type)                                       \
    SW_INLINE result to(type a, type b)                                        \
    {                                                                              \
        result c;                                                                  \
        for (int l = 0; l < SW_LANES; ++l) c[l] = function(a[l], b[l]);            \
        return c;                                                                  \
    }


#ifdef SW_DOUBLE
SW_LIFT(sw_lanes_exp_each, sw_lanes, exp, sw_lanes)
SW_LIFT(sw_lanes_log_each, sw_lanes, log, sw_lanes)
#else
#define sw_lanes_log_each sw_lanes_log
/* 2^n, in two factors, times a polynomial. */
SW_INLINE sw_lanes sw_lanes_exp_each(sw_lanes a)
{
    const sw_lanes less = sw_lanes_select((sw_ints)(a > 89.0F), SW_ALL(89.0F), a);
    const sw_lanes x = sw_lanes_select((sw_ints)(less < -104.0F), SW_ALL(-104.0F), less);
    const sw_lanes shifted = x * 1.44269504F + 12582912.0F; /* n in the lowest bits */
    const sw_lanes n = shifted - 12582912.0F;
    const sw_lanes r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
    const sw_lanes p = (((((1.9875691500e-4F * r + 1.3981999507e-3F) * r + 8.3334519073e-3F) * r
                         + 4.1665795894e-2F) * r + 1.6666665459e-1F) * r + 5.0000001201e-1F);
    const sw_ints whole = (sw_ints)((sw_uints)shifted - 0x4b400000U), half = whole >> 1;
    const sw_lanes one = (sw_lanes)((sw_uints)(half + 127) << 23);
    const sw_lanes other = (sw_lanes)((sw_uints)(whole - half + 127) << 23);
    return ((p * r) * r + r + 1.0F) * one * other;
}
#endif

/* Each lane with the number of the lane `k` places away, for a power of two. */
SW_INLINE __attribute__((always_inline)) sw_lanes sw_lanes_swapped(sw_lanes a, int k)
{
#ifdef __clang__
    sw_lanes b;
    for (int l = 0; l < SW_LANES; ++l) b[l] = a[l ^ k];
    return b;
#else
    sw_ints place;
    for (int l = 0; l < SW_LANES; ++l) place[l] = l ^ k;
    return __builtin_shuffle(a, place);
#endif
}

SW_INLINE sw_real sw_first(sw_lanes a) { return a[0]; }

/* Flags of the lanes from `first` to the end of a span. */
SW_INLINE sw_ints sw_active(int first, int span)
{
    sw_ints place;
    for (int l = 0; l < SW_LANES; ++l) place[l] = l;
    return (sw_ints)(place >= first) & (sw_ints)(place < span);
}

/* The numbers of a span of members; lanes beyond it are zero. */
SW_INLINE sw_lanes sw_get(const sw_real *a, int span)
{
    sw_lanes all = {0};
    memcpy(&all, a, (size_t)span * sizeof *a);
    return all;
}

/* The same of numbers that lie `step` apart. */
SW_INLINE sw_lanes sw_gather(const sw_real *a, int step, int span)
{
    sw_lanes all = {0};
    for (int l = 0; l < span; ++l) all[l] = a[step * l];
    return all;
}

SW_INLINE void sw_put(sw_real *a, sw_lanes all, int span)
{
    memcpy(a, &all, (size_t)span * sizeof *a);
}

SW_INLINE sw_ints sw_get_ints(const int *a, int span)
{
    sw_ints all = {0};
    if (sizeof(sw_int) == sizeof(int)) memcpy(&all, a, (size_t)span * sizeof *a);
    else for (int l = 0; l < span; ++l) all[l] = a[l];
    return all;
}

SW_INLINE void sw_put_ints(int *a, sw_ints all, int span)
{
    if (sizeof(sw_int) == sizeof(int)) memcpy(a, &all, (size_t)span * sizeof *a);
    else for (int l = 0; l < span; ++l) a[l] = (int)all[l];
}
#else
#ifndef SW_INLINE
#define SW_INLINE static inline
#endif
enum { SW_LANES = 1 };
typedef sw_real sw_lanes;
typedef sw_int sw_ints;
typedef sw_uint sw_uints;
#define SW_ALL(a) (a)
#define SW_ALL_INTS(a) ((sw_ints)(a))
#define SW_FLAGS(comparison) (-(sw_ints)(comparison))
#define SW_NEGATIVE(a) (-(sw_ints)(signbit(a) != 0))
#define SW_LIFT(to, result, function, type) \
    SW_INLINE result to(type a) { return (result)function(a); }
#define SW_LIFT2(to, result, function, type) \
    SW_INLINE result to(type a, type b) { return (result)function(a, b); }

SW_INLINE sw_ints sw_lanes_choose(sw_ints flag, sw_ints a, sw_ints b) { return flag ? a : b; }
SW_INLINE sw_lanes sw_lanes_select(sw_ints flag, sw_lanes a, sw_lanes b) { return flag ? a : b; }
SW_INLINE int sw_lanes_any(sw_ints flag) { return flag != 0; }
SW_INLINE sw_lanes sw_lanes_of_flags(sw_ints a) { return (sw_lanes)(a != 0); }
SW_INLINE sw_lanes sw_lanes_of_ints(sw_ints a) { return (sw_lanes)a; }
SW_INLINE sw_lanes sw_lanes_fabs(sw_lanes a) { return (sw_lanes)fabs(a); }
#ifdef SW_DOUBLE
#define sw_lanes_exp_each exp
#define sw_lanes_log_each log
#else
#define sw_lanes_exp_each expf
#define sw_lanes_log_each logf
#define sw_lanes_log logf
#endif
SW_INLINE sw_lanes sw_lanes_swapped(sw_lanes a, int k) { (void)k; return a; }
SW_INLINE sw_real sw_first(sw_lanes a) { return a; }
SW_INLINE sw_ints sw_active(int first, int span) { return -(sw_ints)(first <= 0 && span > 0); }
SW_INLINE sw_lanes sw_get(const sw_real *a, int span) { return span ? *a : 0; }
SW_INLINE sw_lanes sw_gather(const sw_real *a, int step, int span)
{
    (void)step;
    return span ? *a : 0;
}
SW_INLINE void sw_put(sw_real *a, sw_lanes all, int span) { if (span) *a = all; }
SW_INLINE sw_ints sw_get_ints(const int *a, int span) { return span ? *a : 0; }
SW_INLINE void sw_put_ints(int *a, sw_ints all, int span) { if (span) *a = (int)all; }
#endif

/* So many entries of an array are read and written at once, from the place `at` on. */
#define SW_SPAN(n) (SW_LANES < (n) ? SW_LANES : (n))
#define SW_EACH(at, n)                                          \
    for (int next = 0, at = 0; next < (n); next += SW_SPAN(n),  \
         at = next + SW_SPAN(n) <= (n) ? next : (n) - SW_SPAN(n))

SW_INLINE sw_ints sw_lanes_finite(sw_lanes a) { return SW_FLAGS(a - a == 0); }

SW_INLINE sw_lanes sw_lanes_max(sw_lanes a, sw_lanes b)
{
    const sw_ints equal = SW_FLAGS(a == b) & SW_NEGATIVE(b); /* 0 is above -0 */
    return sw_lanes_select(SW_FLAGS(a > b) | SW_FLAGS(a != a) | equal, a, b);
}

SW_INLINE sw_lanes sw_lanes_min(sw_lanes a, sw_lanes b)
{
    const sw_ints equal = SW_FLAGS(a == b) & SW_NEGATIVE(a);
    return sw_lanes_select(SW_FLAGS(a < b) | SW_FLAGS(a != a) | equal, a, b);
}

SW_INLINE sw_ints sw_lanes_all_finite(const sw_lanes *a, int n)
{
    sw_lanes sum = {0};
    for (int i = 0; i < n; ++i) sum += a[i] * (sw_real)0;
    return SW_FLAGS(sum == 0);
}

/* y = W x for a matrix that is stored column by column, eight rows at a time. */
SW_INLINE void sw_lanes_matvec(const sw_real *restrict w, const sw_lanes *restrict x,
                                   sw_lanes *restrict y, int rows, int columns)
{
    int i = 0;
    for (; i + 8 <= rows; i += 8) {
        sw_lanes sum[8];
        for (int k = 0; k < 8; ++k) sum[k] = SW_ALL((sw_real)0);
        for (int j = 0; j < columns; ++j)
            for (int k = 0; k < 8; ++k) sum[k] += w[j * rows + i + k] * x[j];
        for (int k = 0; k < 8; ++k) y[i + k] = sum[k];
    }
    for (; i < rows; ++i) {
        sw_lanes sum = {0};
        for (int j = 0; j < columns; ++j) sum += w[j * rows + i] * x[j];
        y[i] = sum;
    }
}

/* The larger of two numbers. */
SW_INLINE sw_lanes sw_either_larger(sw_lanes a, sw_lanes b)
{
    return sw_lanes_select(SW_FLAGS(a > b), a, b);
}

/* The larger of two numbers, NaN if one is. */
SW_INLINE sw_lanes sw_lanes_larger(sw_lanes a, sw_lanes b)
{
    return sw_lanes_select(SW_FLAGS(a > b) | SW_FLAGS(a != a), a, b);
}

/* The smaller of two numbers. */
SW_INLINE sw_lanes sw_either_smaller(sw_lanes a, sw_lanes b)
{
    return sw_lanes_select(SW_FLAGS(a < b), a, b);
}

/* The smaller of two numbers, NaN if one is. */
SW_INLINE sw_lanes sw_lanes_smaller(sw_lanes a, sw_lanes b)
{
    return sw_lanes_select(SW_FLAGS(a < b) | SW_FLAGS(a != a), a, b);
}

/* The lanes from the place `at` on that a loop over n numbers has not had before, and else 0. */
SW_INLINE sw_lanes sw_new(sw_lanes a, int at, int n)
{
    if (n % SW_SPAN(n) == 0 && SW_SPAN(n) == SW_LANES) return a;
    return sw_lanes_select(sw_active((SW_SPAN(n) - at % SW_SPAN(n)) % SW_SPAN(n), SW_SPAN(n)), a, SW_ALL((sw_real)0));
}

/* The sum of the lanes, and of an array. */
SW_INLINE sw_real sw_total(sw_lanes all)
{
    if (SW_LANES > 8) all += sw_lanes_swapped(all, 8);
    if (SW_LANES > 4) all += sw_lanes_swapped(all, 4);
    if (SW_LANES > 2) all += sw_lanes_swapped(all, 2);
    if (SW_LANES > 1) all += sw_lanes_swapped(all, 1);
    return sw_first(all);
}

SW_INLINE sw_real sw_sum(const sw_real *a, int n)
{
    sw_lanes all = SW_ALL((sw_real)0);
    SW_EACH(at, n) all += sw_new(sw_get(a + at, SW_SPAN(n)), at, n);
    return sw_total(all);
}

/* The maximum of an array; NaN if a number is NaN. */
SW_INLINE sw_real sw_largest(const sw_real *a, int n)
{
    sw_lanes all = SW_ALL(*a);
    SW_EACH(at, n) {
        const sw_lanes next = sw_get(a + at, SW_SPAN(n));
        all = sw_lanes_larger(sw_lanes_select(sw_active(0, SW_SPAN(n)), next, all), all);
    }
    const int nan = sw_lanes_any(SW_FLAGS(all != all));
    if (SW_LANES > 8) all = sw_either_larger(sw_lanes_swapped(all, 8), all);
    if (SW_LANES > 4) all = sw_either_larger(sw_lanes_swapped(all, 4), all);
    if (SW_LANES > 2) all = sw_either_larger(sw_lanes_swapped(all, 2), all);
    if (SW_LANES > 1) all = sw_either_larger(sw_lanes_swapped(all, 1), all);
    return nan ? (sw_real)NAN : sw_first(all);
}

/* The minimum of an array; NaN if a number is NaN. */
SW_INLINE sw_real sw_smallest(const sw_real *a, int n)
{
    sw_lanes all = SW_ALL(*a);
    SW_EACH(at, n) {
        const sw_lanes next = sw_get(a + at, SW_SPAN(n));
        all = sw_lanes_smaller(sw_lanes_select(sw_active(0, SW_SPAN(n)), next, all), all);
    }
    const int nan = sw_lanes_any(SW_FLAGS(all != all));
    if (SW_LANES > 8) all = sw_either_smaller(sw_lanes_swapped(all, 8), all);
    if (SW_LANES > 4) all = sw_either_smaller(sw_lanes_swapped(all, 4), all);
    if (SW_LANES > 2) all = sw_either_smaller(sw_lanes_swapped(all, 2), all);
    if (SW_LANES > 1) all = sw_either_smaller(sw_lanes_swapped(all, 1), all);
    return nan ? (sw_real)NAN : sw_first(all);
}

/* Flags are 0 or 1 in C. */
SW_INLINE sw_ints sw_get_flags(const int *a, int span) { return -sw_get_ints(a, span); }
SW_INLINE void sw_put_flags(int *a, sw_ints all, int span) { sw_put_ints(a, -all, span); }

/* New numbers in the flagged lanes. */
SW_INLINE void sw_change(sw_real *a, sw_lanes all, sw_ints flag, int span)
{
    sw_put(a, sw_lanes_select(flag, all, sw_get(a, span)), span);
}

SW_INLINE void sw_change_ints(int *a, sw_ints all, sw_ints flag, int span)
{
    sw_put_ints(a, sw_lanes_choose(flag, all, sw_get_ints(a, span)), span);
}

SW_INLINE void sw_change_flags(int *a, sw_ints all, sw_ints flag, int span)
{
    sw_put_flags(a, sw_lanes_choose(flag, all, sw_get_flags(a, span)), span);
}

#endif
