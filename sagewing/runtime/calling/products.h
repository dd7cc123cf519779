/* Products of weights, which all records share, and numbers of records in lanes. */

#ifndef SAGEWING_PRODUCTS_H
#define SAGEWING_PRODUCTS_H

/* y = W x, eight rows at a time; entry (i, j) of W is w[i * across + j * along]. */
void sw_product(const sw_real *restrict w, long across, long along, const sw_lanes *restrict x,
                sw_lanes *restrict y, int rows, int columns);

/* W += the sum over lanes and steps of r x^T, where r has rows and x has `inner` entries, of so many
 * columns each; the numbers of a step lie `r_step` and `x_step` after those of the one before. */
void sw_add_outer(sw_real *restrict w, const sw_lanes *restrict x, long x_step,
                  const sw_lanes *restrict r, long r_step, int rows, int inner, int columns,
                  int steps);

#endif
