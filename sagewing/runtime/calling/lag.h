/* What Python calls of a filter with a fixed-lag smoother; cffi reads these lines, too. */

/* One record, step by step: the measurement and inputs of a step, the steps and the estimate. */
typedef struct {
    sw_real z[SW_NZ];
    sw_real u[SW_NU + 1];
    sw_lag lag;
    sw_estimate estimate;
} sw_lag_record;

void sw_lag_record_step(sw_lag_record *record, double dt);
