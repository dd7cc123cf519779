#include "sagewing_lag.h"

#include "lag.h"

void sw_lag_record_step(sw_lag_record *record, double dt)
{
    (void)sw_lag_step(&record->lag, record->z, record->u, (sw_real)dt, &record->estimate);
}
