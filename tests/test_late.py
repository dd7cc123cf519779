"""Measurements that come late and out of order: the estimate is that of the sorted stream."""

import copy
import os
import pickle
import shutil
import subprocess
import tracemalloc
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw
from sagewing.codegen.header import LATE, NAME
from sagewing.codegen.source import c_source

pytestmark = [
    pytest.mark.usefixtures("unchecked_shapes"),
    pytest.mark.filterwarnings("ignore:The measurement of t:RuntimeWarning"),
]
STREAMS = int(os.environ.get("FUZZ_EXAMPLES", 300))
BACKENDS = ["c", "jax"]
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
CHECKS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
P0 = np.eye(2)


class Pushed(sw.Model):
    """A cart with an acceleration as its input; its place is measured."""

    def transition(self, x, u, dt):
        return jnp.stack([x[0] + dt * x[1], x[1] + dt * u[0]])

    def observe(self, x, u):
        return x[:1]


def husa(model=None):
    """A filter whose state has more than x and P."""
    return sw.SageHusa(model or Pushed(), [1e-4, 1e-2], [0.1], b=0.95, gain_noise="posterior")


def online(backend, **settings):
    return sw.Online(husa(), [0.0, 0.0], P0, backend=backend, **settings)


def stream(seed, n=30, delay=1.0):
    """Times, measurements and inputs (None: as before) in the order of arrival."""
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.uniform(0.0, 0.1, n) * (rng.random(n) > 0.1))
    z = np.where(rng.random((n, 1)) < 0.1, np.nan, rng.normal(size=(n, 1)))
    u = [rng.normal(size=1) if k == 0 or rng.random() < 0.7 else None for k in range(n)]
    arrival = t + delay * rng.random(n) * (rng.random(n) < 0.5)
    arrival[0] = -1.0
    events = [(t[k], z[k], u[k]) for k in np.argsort(arrival, kind="stable")]
    return [e for k, e in enumerate(events) for _ in range(1 + (k % 7 == 3))]  # and duplicates


def fed(filt, events):
    """The events that were not refused."""
    taken = []
    for t, z, u in events:
        before = filt.late
        filt.step(z, u, t=t)
        if filt.late == before:
            taken.append((t, z, u))
    return taken


def in_order(backend, events, t0):
    """A filter without a buffer, by dt, on the sorted events."""
    filt, last, inputs = online(backend), t0, None
    for t, z, u in sorted(events, key=lambda event: event[0]):
        inputs = inputs if u is None else u
        filt.step(z, inputs, dt=float(t - last))
        last = t
    return filt


def same(a, b):
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.fuzz
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_estimate_is_that_of_the_sorted_stream_to_the_bit(backend):
    streams = STREAMS if "FUZZ_EXAMPLES" in os.environ else {"c": 30, "jax": 6}[backend]
    refused = 0
    for seed in range(streams):
        late = online(backend, t0=-1.0, buffer=(0, 3, 10, 40)[seed % 4])
        taken = fed(late, stream(seed))
        same(late.estimate, in_order(backend, taken, -1.0).estimate)
        assert late.t == max(t for t, _, _ in taken)
        refused += late.late
    assert refused > 0


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """`late_streams.c`, compiled with sanitizers."""
    folder = tmp_path_factory.mktemp("late")
    source = c_source(husa(), 1, dtype=np.float32)
    (folder / f"{NAME}.h").write_text(source.header)
    (folder / f"{NAME}.c").write_text(source.code)
    for path in (*LATE, Path(__file__).with_name("late_streams.c")):
        shutil.copy(path, folder)
    files = (f"{NAME}.c", "sagewing_late.c", "late_streams.c", "-o", "late", "-lm")
    run(folder, "gcc", *STRICT, *CHECKS, "-O1", *files)
    return folder


def run(folder, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.fuzz
def test_in_C_it_is_that_of_sw_step_on_the_sorted_stream(program):
    print(run(program, "./late", str(STREAMS)))


def test_nothing_is_allocated_in_C(program):
    run(program, "gcc", "-std=c99", "-c", "sagewing_late.c")
    needed = run(program, "nm", "-u", "sagewing_late.o").split()[1::2]
    assert {name.lstrip("_") for name in needed} <= {"sw_init", "sw_step", "memcpy", "memset"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_is_constant(backend):
    late = online(backend, buffer=8)
    events = stream(0)
    fed(late, events)
    tracemalloc.start()
    try:
        sizes = []
        for more in range(1, 13):
            for t, z, u in events:
                late.step(z, u, t=t + 100.0 * more)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[-1] - sizes[1] < 40_000  # 330 events: less than their times and measurements


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [0, 5])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copy_has_the_same_buffer(backend, size, copied):
    events = stream(3)
    first = online(backend, buffer=size)
    fed(first, events[:20])
    second = copied(first)
    assert (second.late, second.t) == (first.late, first.t)
    same(second.estimate, first.estimate)
    for t, z, u in events[20:]:
        same(second.step(z, u, t=t), first.step(z, u, t=t))
    assert second.late == first.late
    with pytest.raises(sw.InputError, match="none"):
        copied(first).step([1.0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_too_late_is_counted_and_changes_nothing(backend):
    late = online(backend, t0=0.0, buffer=2)
    with pytest.warns(
        RuntimeWarning, match=r"t = -0.1 came too late.*2 events.* t = 0\. .*buffer="
    ):
        x, _ = late.step([1.0], [0.0], t=-0.1)
    np.testing.assert_array_equal(x, [0.0, 0.0])
    assert (late.late, late.estimate) == (1, None)
    for t in (0.1, 0.2, 0.3, 0.4):
        x, P = late.step([t], [0.0], t=t)
    same(late.step([9.0], [1.0], t=0.19), (x, P))
    assert late.late == 2
    assert late.step([9.0], t=0.2)[0][0] != x[0]  # as old as the last one that left the buffer
    assert late.late == 2


def test_inputs_hold_until_the_next_ones():
    late = online("jax", buffer=20)
    late.step(None, [2.0], t=0.0)
    late.step(None, [0.0], t=2.0)
    late.step(None, t=3.0)  # still [0.0]
    np.testing.assert_allclose(late.estimate.x, [0.0, 0.0])
    late.step(None, t=1.0)  # the inputs [2.0] act for a second
    np.testing.assert_allclose(late.estimate.x, [4.0, 2.0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("step", "words"),
    [
        (lambda o: o.step([1.0], [0.0], t=np.nan), ["t must be", "nan"]),
        (lambda o: o.step([1.0], [0.0], t=np.inf), ["t must be", "inf"]),
        (lambda o: o.step([1.0], [0.0], t="noon"), ["t must be", "'noon'"]),
        (lambda o: o.step([1.0], [0.0], 0.1, t=3.0), ["dt or t", "0.1", "3"]),
        (lambda o: o.step([1.0], [0.0], 0.1), ["t at every step", "dt"]),
        (lambda o: o.step([1.0], [0.0]), ["t at every step", "dt"]),
        (lambda o: o.step([1.0], [0.0, 0.0], t=3.0), ["u must have shape (1,)", "(2,)"]),
        (lambda o: o.step([1.0], t=0.5), ["u must be given", "0.5"]),
        (lambda o: o.step([1.0], [0.0], t=1e300), ["t must be at most 3.4e+38 s", "1e+300"]),
    ],
)
def test_a_wrong_time_is_a_sentence_and_changes_nothing(backend, step, words):
    late = online(backend, t0=0.0)
    late.step([1.0], [0.0], t=1.0)
    before = late.estimate
    with pytest.raises(sw.InputError) as error:
        step(late)
    for word in words:
        assert word in str(error.value)
    same(late.estimate, before)
    late.step([1.0], t=1.5)


def test_wrong_settings_are_a_sentence():
    with pytest.raises(sw.InputError, match="buffer must be a number of events"):
        online("c", buffer=-1)
    with pytest.raises(sw.InputError, match="t0 must be one finite number"):
        online("c", t0=np.nan)
    by_dt = online("jax")
    by_dt.step([1.0], [0.0], 0.1)
    with pytest.raises(sw.InputError, match="with dt, and now one with t"):
        by_dt.step([1.0], [0.0], t=1.0)
    with pytest.raises(sw.InputError, match="fails where"):  # a model that needs inputs
        online("jax").step([1.0], t=1.0)
