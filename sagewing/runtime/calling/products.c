#include "sagewing_training.h"

/* The loops of a product; where a stride is known to be 1, its code is faster. */
static inline __attribute__((always_inline)) void multiply(const sw_real *restrict w, long across,
                                                           long along, const sw_lanes *restrict x,
                                                           sw_lanes *restrict y, int rows,
                                                           int columns)
{
    int i = 0;
    for (; i + 8 <= rows; i += 8, w += 8 * across) {
        sw_lanes sum[8];
        for (int k = 0; k < 8; ++k) sum[k] = SW_ALL((sw_real)0);
        for (int j = 0; j < columns; ++j)
            for (int k = 0; k < 8; ++k) sum[k] += w[k * across + j * along] * x[j];
        for (int k = 0; k < 8; ++k) y[i + k] = sum[k];
    }
    for (; i < rows; ++i, w += across) {
        sw_lanes sum = {0};
        for (int j = 0; j < columns; ++j) sum += w[j * along] * x[j];
        y[i] = sum;
    }
}

void sw_product(const sw_real *restrict w, long across, long along, const sw_lanes *restrict x,
                sw_lanes *restrict y, int rows, int columns)
{
    if (along == 1) multiply(w, across, 1, x, y, rows, columns);
    else if (across == 1) multiply(w, 1, along, x, y, rows, columns);
    else multiply(w, across, along, x, y, rows, columns);
}

/* Blocks of W stay in registers during all steps. */
void sw_add_outer(sw_real *restrict w, const sw_lanes *restrict x, long x_step,
                  const sw_lanes *restrict r, long r_step, int rows, int inner, int columns,
                  int steps)
{
    enum { R = 4, C = 6 };
    for (int i = 0; i < rows; i += R)
        for (int j = 0; j < inner; j += C) {
            sw_lanes sum[R][C];
            long at_r[R], at_x[C]; /* the last row and column again in place of those beyond it */
            for (int a = 0; a < R; ++a) at_r[a] = (long)(i + a < rows ? i + a : rows - 1) * columns;
            for (int b = 0; b < C; ++b) at_x[b] = (long)(j + b < inner ? j + b : inner - 1) * columns;
            for (int a = 0; a < R; ++a)
                for (int b = 0; b < C; ++b) sum[a][b] = SW_ALL((sw_real)0);
            for (int k = 0; k < steps; ++k)
                for (int c = 0; c < columns; ++c) {
                    const sw_lanes *xs = x + k * x_step + c, *rs = r + k * r_step + c;
                    for (int a = 0; a < R; ++a)
                        for (int b = 0; b < C; ++b) sum[a][b] += rs[at_r[a]] * xs[at_x[b]];
                }
            for (int a = 0; a < R && i + a < rows; ++a)
                for (int b = 0; b < C && j + b < inner; ++b)
                    w[(long)(i + a) * inner + j + b] += sw_total(sum[a][b]);
        }
}
