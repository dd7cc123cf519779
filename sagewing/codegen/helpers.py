"""The small C functions that generated code may call; only those that it calls are written."""

from sagewing.codegen.operations import LIBM

# Functions of libm that have one name for both precisions.
MACROS = [
    name for name in (*LIBM, "fabs", "rint", "round", "atan2", "pow", "fmod") if name != "tanh"
]

FUNCTIONS = {
    "sw_max": """
/* The maximum, with 0 above -0; NaN if a number is NaN. */
static inline sw_real sw_max(sw_real a, sw_real b)
{
    return a > b || a != a || (a == b && signbit(b)) ? a : b;
}
""",
    "sw_min": """
/* The minimum, with -0 below 0; NaN if a number is NaN. */
static inline sw_real sw_min(sw_real a, sw_real b)
{
    return a < b || a != a || (a == b && signbit(a)) ? a : b;
}
""",
    "sw_sign": """
static inline sw_real sw_sign(sw_real a) { return a > 0 ? C(1.0) : a < 0 ? C(-1.0) : a; }
""",
    "sw_all_finite": """
static int sw_all_finite(const sw_real *a, int n)
{
    int bad = 0;
    for (int i = 0; i < n; ++i) bad |= !(a[i] - a[i] == 0);
    return !bad;
}
""",
    "sw_to_int": """
/* Truncated; 0 for NaN, the nearest int for numbers out of range. */
static inline int sw_to_int(sw_real a)
{
    if (!(a > C(-2147483648.0))) return a != a ? 0 : -2147483647 - 1;
    return a < C(2147483648.0) ? (int)a : 2147483647;
}
""",
    "sw_quotient": """
/* Rounded towards zero; -1 where b is zero. */
static inline int sw_quotient(int a, int b)
{
    return b == 0 ? -1 : b == -1 ? (int)(0U - (unsigned)a) : a / b;
}
""",
    "sw_remainder": """
/* The remainder of that quotient. */
static inline int sw_remainder(int a, int b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
""",
    "sw_to_long": """
/* The same for 64 bits. */
static inline int64_t sw_to_long(sw_real a)
{
    if (!(a > C(-9223372036854775808.0))) return a != a ? 0 : INT64_MIN;
    return a < C(9223372036854775808.0) ? (int64_t)a : INT64_MAX;
}
""",
    "sw_quotient_of_longs": """
/* Rounded towards zero; -1 where b is zero. */
static inline int64_t sw_quotient_of_longs(int64_t a, int64_t b)
{
    return b == 0 ? -1 : b == -1 ? (int64_t)(UINT64_C(0) - (uint64_t)a) : a / b;
}
""",
    "sw_remainder_of_longs": """
/* The remainder of that quotient. */
static inline int64_t sw_remainder_of_longs(int64_t a, int64_t b)
{
    return b == 0 ? a : b == -1 ? 0 : a % b;
}
""",
    "sw_matvec": """
/* y = W x for a matrix that is stored column by column, four columns at a time. */
static void sw_matvec(const sw_real *restrict w, const sw_real *restrict x,
                      sw_real *restrict y, int rows, int columns)
{
    int j = 0;
    for (int i = 0; i < rows; ++i) y[i] = 0;
    for (; j + 4 <= columns; j += 4, w += 4 * rows) {
        const sw_real a = x[j], b = x[j + 1], c = x[j + 2], d = x[j + 3];
        for (int i = 0; i < rows; ++i)
            y[i] = (((y[i] + w[i] * a) + w[rows + i] * b) + w[2 * rows + i] * c)
                   + w[3 * rows + i] * d;
    }
    for (; j < columns; ++j, w += rows)
        for (int i = 0; i < rows; ++i) y[i] += w[i] * x[j];
}
""",
    "sw_matvec8": """
/* The same for eight rows, whose sums stay in registers if the function is not inlined. */
#if defined(__GNUC__) && !defined(__clang__)
__attribute__((noinline, noclone))
#endif
static void sw_matvec8(const sw_real *restrict w, const sw_real *restrict x,
                       sw_real *restrict y, int columns)
{
    sw_real s[8] = {0};
    int j = 0;
    for (; j + 4 <= columns; j += 4, w += 32) {
        const sw_real a = x[j], b = x[j + 1], c = x[j + 2], d = x[j + 3];
        for (int k = 0; k < 8; ++k)
            s[k] += (w[k] * a + w[8 + k] * b) + (w[16 + k] * c + w[24 + k] * d);
    }
    for (; j < columns; ++j, w += 8)
        for (int k = 0; k < 8; ++k) s[k] += w[k] * x[j];
    for (int k = 0; k < 8; ++k) y[k] = s[k];
}
""",
    "sw_log_each": """
/* log in a loop: for floats n log 2 + log(1 + t), with 1 + t between the roots of 1/2 and 2 and a
 * polynomial in t, which compilers vectorise. */
#ifdef SW_DOUBLE
static inline double sw_log_each(double a) { return log(a); }
#else
static inline float sw_log_each(float a)
{
    union { float number; uint32_t bits; } x, y;
    const int small = a < 1.17549435e-38F;
    x.number = small ? a * 8388608.0F : a;
    const int32_t n = (int32_t)((x.bits + 0x4afb0dU) >> 23) - 127;
    y.bits = x.bits - ((uint32_t)n << 23);
    const float t = y.number - 1.0F, t2 = t * t, m = (float)(small ? n - 23 : n);
    const float p = (((((((7.0376836292e-2F * t - 1.1514610310e-1F) * t + 1.1676998740e-1F) * t
                         - 1.2420140846e-1F) * t + 1.4249322787e-1F) * t - 1.6668057665e-1F) * t
                      + 2.0000714765e-1F) * t - 2.4999993993e-1F) * t + 3.3333331174e-1F;
    const float whole = (p * t * t2 + m * -2.12194440e-4F) - 0.5F * t2 + t + m * 0.693359375F;
    /* Not a positive number: log(infinity) = infinity, log(0) = -infinity, all others NaN */
    const float odd = a == 0 ? -SW_INF : a > 0 ? a : SW_NAN;
    return a > 0 && a < SW_INF ? whole : odd;
}
#endif
""",
    "sw_exp_each": """
/* exp in a loop: for floats 2^n, in two factors, times a polynomial, which compilers vectorise. */
#ifdef SW_DOUBLE
static inline double sw_exp_each(double a) { return exp(a); }
#else
static inline float sw_exp_each(float a)
{
    union { float number; uint32_t bits; } shifted, one, other;
    const float x = a > 89.0F ? 89.0F : a < -104.0F ? -104.0F : a;
    shifted.number = x * 1.44269504F + 12582912.0F; /* n in the lowest bits */
    const float n = shifted.number - 12582912.0F;
    const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
    const float p = (((((1.9875691500e-4F * r + 1.3981999507e-3F) * r + 8.3334519073e-3F) * r
                       + 4.1665795894e-2F) * r + 1.6666665459e-1F) * r + 5.0000001201e-1F);
    const int32_t whole = (int32_t)(shifted.bits - 0x4b400000U), half = whole / 2;
    one.bits = (uint32_t)(half + 127) << 23;
    other.bits = (uint32_t)(whole - half + 127) << 23;
    return ((p * r) * r + r + 1.0F) * one.number * other.number;
}
#endif
""",
    "sw_logistic": """
/* 1 / (1 + exp(-a)). For floats exp is 2^n times a polynomial, which compilers vectorise;
 * 2^128 is infinity, so that what is less than the smallest normal number is 0. */
#ifdef SW_DOUBLE
static inline double sw_logistic(double a) { return 1.0 / (1.0 + exp(-a)); }
#else
static inline float sw_logistic(float a)
{
    union { float number; uint32_t bits; } shifted, power;
    const float x = a > 87.0F ? -87.0F : a < -89.0F ? 89.0F : -a;
    shifted.number = x * 1.44269504F + 12582912.0F; /* n in the lowest bits */
    const float n = shifted.number - 12582912.0F;
    const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
    const float p = (((((1.9875691500e-4F * r + 1.3981999507e-3F) * r + 8.3334519073e-3F) * r
                       + 4.1665795894e-2F) * r + 1.6666665459e-1F) * r + 5.0000001201e-1F);
    power.bits = (shifted.bits << 23) + 0x3f800000U;
    return 1.0F / (1.0F + power.number * ((p * r) * r + r + 1.0F));
}
#endif
""",
    "sw_tanh": """
/* For floats a rational function, which compilers vectorise; near zero tanh a = a. */
#ifdef SW_DOUBLE
static inline double sw_tanh(double a) { return tanh(a); }
#else
static inline float sw_tanh(float a)
{
    const float x = a > 7.90531111F ? 7.90531111F : a < -7.90531111F ? -7.90531111F : a;
    const float s = x * x;
    const float p = ((((((-2.76076847742355e-16F * s + 2.00018790482477e-13F) * s
                         - 8.60467152213735e-11F) * s + 5.12229709037114e-08F) * s
                       + 1.48572235717979e-05F) * s + 6.37261928875436e-04F) * s
                     + 4.89352455891786e-03F) * x;
    const float q = ((1.19825839466702e-06F * s + 1.18534705686654e-04F) * s
                     + 2.26843463243900e-03F) * s + 4.89352518554385e-03F;
    return s < 1.6e-7F ? a : p / q;
}
#endif
""",
}


def prelude(single: set[str], double: set[str] | None = None) -> str:
    """The macros and functions that code calls: both precisions the same, or each its own."""
    double = single if double is None else double
    macros = sorted(name for name in MACROS if f"sw_{name}" in single | double)
    lines = [
        "#ifdef SW_DOUBLE",
        "#define C(x) x",
        "#define SW_PICK(single, double) double",
        *(f"#define sw_{name} {name}" for name in macros),
        "#else",
        "#define C(x) x##F",
        "#define SW_PICK(single, double) single",
        *(f"#define sw_{name} {name}f" for name in macros),
        "#endif",
        "#define SW_INF ((sw_real)INFINITY)",
        "#define SW_NAN ((sw_real)NAN)",
        "",
    ]
    text = "\n".join(lines)
    for name, function in FUNCTIONS.items():
        if name in single and name in double:
            text += function
        elif name in single | double:
            text += f"\n#if{'n' if name in single else ''}def SW_DOUBLE{function}#endif\n"
    return text
