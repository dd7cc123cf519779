#include "sagewing_filter.h"
#include "sagewing_late.h"

#include <stddef.h>

#include "records.h"

void sw_record_step(sw_record *record, double dt)
{
    (void)sw_step(&record->state, record->z, record->u, (sw_real)dt, &record->estimate);
}

int sw_late_record_step(sw_late_record *record, double t, int has_u)
{
    const sw_real *u = has_u ? record->u : NULL;
    return sw_late_step(&record->late, t, record->z, u, &record->estimate);
}

void sw_records_run(const sw_records *records, long first, long last)
{
    for (long i = first; i < last; ++i) {
        const sw_real *u = records->u + i * records->u_record;
        const sw_real *dt = records->dt + i * records->dt_record;
        for (long k = 0; k < records->steps; ++k) {
            const long row = i * records->steps + k;
            (void)sw_step(&records->states[i], records->z + row * SW_NZ, u + k * SW_NU,
                          dt[k * records->dt_step], &records->estimates[row]);
        }
    }
}

int sw_records_together(void) { return 1; }
