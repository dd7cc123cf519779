"""The generated C on its own: what compilers, sanitizers and wild numbers say to it."""

import shutil
import subprocess

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import sagewing as sw
from sagewing.codegen.header import NAME
from sagewing.codegen.source import c_source
from sagewing.models.quadrotor import N_X

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
HARNESS = """
#include "sagewing_filter.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef COUNT /* all of malloc's callers, also those inside of libm */
extern void *__libc_malloc(size_t size);
static long asked;
void *malloc(size_t size)
{
    ++asked;
    return __libc_malloc(size);
}
#else
enum { asked = 0 };
#endif

static unsigned long long seed = 1;
static unsigned draw(void)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(seed >> 33);
}

static sw_real wild(int often)
{
    const sw_real values[] = {0, (sw_real)-0.0, (sw_real)NAN, (sw_real)INFINITY,
                              (sw_real)-INFINITY, (sw_real)1e-40, (sw_real)1e30, (sw_real)-1e30,
                              (sw_real)1e38, (sw_real)1e-30};
    if ((int)(draw() % 100) < often) return values[draw() % 10];
    return (sw_real)(draw() % 2001) / 100 - 10;
}

int main(int argc, char **argv)
{
    const long steps = argc > 1 ? atol(argv[1]) : 1000;
    sw_state state;
    sw_estimate estimate;
    sw_real x0[SW_NX], P0[SW_NX * SW_NX], z[SW_NZ], u[SW_NU + 1];
    memset(P0, 0, sizeof P0);
    for (int i = 0; i < SW_NX; ++i) {
        x0[i] = (sw_real)(i % 3);
        P0[i * SW_NX + i] = 1;
    }
    sw_init(&state, x0, P0);
    for (long k = 0; k < steps; ++k) {
        const int often = (int)(k / 1000 % 4) * 10;
        for (int i = 0; i < SW_NZ; ++i) z[i] = wild(often);
        for (int i = 0; i < SW_NU; ++i) u[i] = wild(often);
        const sw_real dt = k % 50 ? (sw_real)0.01 : wild(50);
        const sw_state before = state;
        const int said = k % 7 ? sw_step(&state, z, u, dt, k % 3 ? &estimate : NULL)
                               : sw_predict_only(&state, u, dt, &estimate);
        if (said == SW_REFUSED && memcmp(&before, &state, sizeof state)) return 2;
        if ((dt >= 0 && dt < INFINITY) == (said == SW_REFUSED)) return 3;
        const sw_real *numbers = (const sw_real *)&state;
        for (size_t i = 0; i < sizeof state / sizeof(sw_real); ++i)
            if (!isfinite(numbers[i])) {
                printf("step %ld: number %zu is %g\\n", k, i, (double)numbers[i]);
                return 1;
            }
    }
    return asked ? 4 : 0;
}
"""


class Vision(sw.Model):
    """Functions that a user may write, each somewhere in it."""

    def transition(self, x, u, dt):
        speed = jnp.sqrt(x[1] ** 2 + 1.0) * jnp.exp(-jnp.abs(x[2])) + jnp.log1p(x[1] ** 2)
        index = jnp.round(x[0]).astype(int)
        gear = jnp.array([0.1, 0.2, 0.3])[jnp.clip(index, 0, 2)]
        moved = jax.lax.fori_loop(0, 3, lambda _, s: s + gear * dt * jnp.tanh(s), x[0])
        return jnp.stack([moved + dt * speed, x[1] * 0.99, jnp.arctan(x[2])])

    def observe(self, x, u):
        return jnp.stack([jnp.sign(x[0]) * jnp.cbrt(jnp.abs(x[0])), x[1] ** 3 / (1.0 + x[2] ** 2)])


MODES = sw.models.Switched(
    (sw.models.QuadrotorKinematic(jacobian="euler"), sw.models.QuadrotorDynamic(jacobian="euler")),
    inputs=((0, 6), (6, 10)),
)


def filters():
    noise = ([0.01] * 3, [1.0, 2.0])
    policy = sw.Policy(sw.Architecture(3, 2), key=jax.random.key(0))
    return {
        "ekf": (sw.EKF(sw.models.Lorenz(), *noise), 0),
        "ndr": (sw.NDRSageHusa(sw.models.Rossler(), *noise, policy), 0),
        "vision": (sw.SageHusa(Vision(), *noise), 0),
        "flight": (sw.EKF(MODES, np.full(N_X, 1e-3), np.full((2, 6), 0.05)), 11),
    }


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Every filter's C in a folder of its own, with the program that torments it."""
    jaxtyping.config.update("jaxtyping_disable", True)  # it would make the generator much slower
    folders = {}
    for name, (filt, n_u) in filters().items():
        made = c_source(filt, n_u, {"trained on": "*/ nothing"})
        folders[name] = tmp_path_factory.mktemp(name)
        (folders[name] / f"{NAME}.h").write_text(made.header)
        (folders[name] / f"{NAME}.c").write_text(made.code)
        (folders[name] / "torment.c").write_text(HARNESS)
    jaxtyping.config.update("jaxtyping_disable", False)
    return folders


def run(folder, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("name", ["ekf", "ndr", "vision"])
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("precision", ["float", "double"])
def test_it_compiles_without_a_warning(sources, name, compiler, precision):
    double = ["-DSW_DOUBLE"] if precision == "double" else []
    run(sources[name], compiler, *STRICT, *double, "-O1", "-c", f"{NAME}.c", "-o", "strict.o")


@pytest.mark.parametrize(
    ("name", "steps", "level"),
    # The flight's long functions take a compiler three times as long at -O1.
    [
        ("ekf", 200_000, "-O1"),
        ("ndr", 16_000, "-O1"),
        ("vision", 100_000, "-O1"),
        ("flight", 4_000, "-O0"),
    ],
)
@pytest.mark.parametrize("precision", ["float", "double"])
def test_no_number_brings_it_down(sources, name, steps, level, precision):
    double = ["-DSW_DOUBLE"] if precision == "double" else []
    checks = ["-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"]
    command = ["gcc", *STRICT, *double, *checks, level, f"{NAME}.c", "torment.c", "-o", precision]
    run(sources[name], *command, "-lm")
    run(sources[name], f"./{precision}", str(steps))


def test_it_asks_nobody_for_memory(sources):
    folder = sources["ndr"]
    run(folder, "gcc", "-std=c99", "-O2", "-c", f"{NAME}.c", "-o", "plain.o")
    needed = {line.split()[-1] for line in run(folder, "nm", "-u", "plain.o").splitlines()}
    allowed = {"memcpy", "memset", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"}
    assert needed - allowed <= {"sqrtf", "logf", "atan2f", "fmodf", "powf", "expf"}


def test_no_step_allocates(sources):
    folder = sources["ndr"]
    run(folder, "gcc", "-DCOUNT", "-O1", f"{NAME}.c", "torment.c", "-o", "counted", "-lm")
    run(folder, "./counted", "8000")


def test_the_same_filter_gives_the_same_bytes(sources):
    for name in ("ekf", "ndr"):
        again = c_source(*filters()[name], {"trained on": "*/ nothing"})
        assert again.code == (sources[name] / f"{NAME}.c").read_text()
        assert again.header == (sources[name] / f"{NAME}.h").read_text()
