/* replay START.csv MEASUREMENTS.csv > ESTIMATES.csv
 *
 * START.csv: a line with the state at the start, and a line with its variances.
 * MEASUREMENTS.csv: a line a step with dt, the inputs and the measured channels; a channel that is
 * empty or not a number did not arrive. A first line that does not begin with a number is a heading.
 * ESTIMATES.csv: a line a step with the time, the state and its standard deviations.
 */

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sagewing_filter.h"

#define LONGEST 8192

/* The next n numbers of a line; an empty field is NaN. Returns how many were there. */
static int numbers(const char *line, sw_real *out, int n)
{
    int found = 0;
    while (found < n && *line != '\0' && *line != '\n' && *line != '\r') {
        char *end;
        const double value = strtod(line, &end);
        out[found++] = (sw_real)(end == line ? NAN : value);
        line = end + strcspn(end, ",\r\n");
        if (*line != ',') return found;
        ++line;
    }
    if (found > 0 && found < n) out[found++] = (sw_real)NAN; /* a comma at the end */
    return found;
}

static FILE *opened(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file) fprintf(stderr, "%s cannot be read\n", path);
    return file;
}

static int started(sw_state *state, const char *path)
{
    static sw_real x0[SW_NX], variances[SW_NDX], P0[SW_NDX * SW_NDX];
    char line[LONGEST];
    FILE *file = opened(path);
    if (!file) return 0;
    int ok = fgets(line, LONGEST, file) && numbers(line, x0, SW_NX) == SW_NX;
    ok = ok && fgets(line, LONGEST, file) && numbers(line, variances, SW_NDX) == SW_NDX;
    fclose(file);
    if (!ok) {
        fprintf(stderr, "%s needs a line of %d numbers and one of %d\n", path, SW_NX, SW_NDX);
        return 0;
    }
    for (int i = 0; i < SW_NDX; ++i) P0[i * SW_NDX + i] = variances[i];
    sw_init(state, x0, P0);
    return 1;
}

int main(int argc, char **argv)
{
    static sw_state state;
    static sw_estimate estimate;
    enum { COLUMNS = 1 + SW_NU + SW_NZ };
    sw_real row[COLUMNS + 1];
    char line[LONGEST];
    double t = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: %s START.csv MEASUREMENTS.csv > ESTIMATES.csv\n", argv[0]);
        return 2;
    }
    if (!started(&state, argv[1])) return 2;
    FILE *file = opened(argv[2]);
    if (!file) return 2;
    for (int number = 1; fgets(line, LONGEST, file); ++number) {
        const int heading = number == 1 && !isdigit((unsigned char)line[0]) && line[0] != '.';
        if (heading || line[0] == '\n' || line[0] == '\r') continue;
        const int found = numbers(line, row, COLUMNS + 1);
        if (found != COLUMNS || sw_step(&state, row + 1 + SW_NU, row + 1, row[0], &estimate) < 0) {
            fprintf(stderr, "%s, line %d: needs dt, %d inputs and %d channels\n", argv[2], number,
                    SW_NU, SW_NZ);
            fclose(file);
            return 2;
        }
        t += (double)row[0];
        printf("%.9g", t);
        for (int i = 0; i < SW_NX; ++i) printf(",%.9g", (double)estimate.x[i]);
        for (int i = 0; i < SW_NDX; ++i) printf(",%.9g", sqrt((double)estimate.P[i * SW_NDX + i]));
        printf("\n");
    }
    fclose(file);
    return 0;
}
