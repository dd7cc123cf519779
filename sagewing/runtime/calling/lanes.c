#include "sagewing_filter.h"

/* The records from `group` on, one in each lane. Lanes beyond the last record repeat it, and their
 * results are not kept. */
static void run(const sw_records *records, long group, long last)
{
    const int count = last - group < SW_LANES ? (int)(last - group) : SW_LANES;
    sw_lanes_state state;
    sw_lanes_estimate estimate;
    sw_lanes z[SW_NZ], u[SW_NU + 1], dt = {0};
    long at[SW_LANES];
    for (int l = 0; l < SW_LANES; ++l) {
        at[l] = group + (l < count ? l : count - 1);
        sw_lanes_load(&state, &records->states[at[l]], l);
    }
    for (long k = 0; k < records->steps; ++k) {
        for (int l = 0; l < SW_LANES; ++l) {
            const sw_real *measured = records->z + (at[l] * records->steps + k) * SW_NZ;
            const sw_real *inputs = records->u + at[l] * records->u_record + k * SW_NU;
            for (int i = 0; i < SW_NZ; ++i) z[i][l] = measured[i];
            for (int i = 0; i < SW_NU; ++i) u[i][l] = inputs[i];
            dt[l] = records->dt[at[l] * records->dt_record + k * records->dt_step];
        }
        sw_lanes_step(&state, z, u, dt, &estimate);
        for (int l = 0; l < count; ++l)
            sw_lanes_say(&state, &estimate, &records->estimates[at[l] * records->steps + k], l);
    }
    for (int l = 0; l < count; ++l) sw_lanes_store(&state, &records->states[at[l]], l);
}

void sw_records_run(const sw_records *records, long first, long last)
{
    for (long group = first; group < last; group += SW_LANES) run(records, group, last);
}

int sw_records_together(void) { return SW_LANES; }
