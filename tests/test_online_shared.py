"""One `Online` in several threads, in a copy, in a child process; and how much memory runs keep."""

import copy
import gc
import pickle
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import jax
import jaxtyping
import numpy as np
import pytest

import sagewing as sw
from sagewing.filters.options import xla_options
from sagewing.filters.run import _program, _programs

BACKENDS = ["c", "jax"]


class Counter(sw.Model):
    """x grows by one with every step."""

    def transition(self, x, u, dt):
        return x + 1.0

    def observe(self, x, u):
        return x


@pytest.fixture(autouse=True)
def as_a_user(tmp_path, monkeypatch):
    jaxtyping.config.update("jaxtyping_disable", True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def online(backend):
    return sw.Online(sw.EKF(Counter(), [1e-6], [1.0]), [0.0], [[1e-6]], backend=backend)


@pytest.mark.parametrize(("backend", "steps"), [("c", 5000), ("jax", 500)])
def test_no_step_of_several_threads_is_lost(backend, steps):
    shared = online(backend)
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(lambda: [shared.step(None) for _ in range(steps)]) for _ in range(4)]
    said = sorted(float(x[0]) for future in done for x, _ in future.result())
    assert said == [k + 1.0 for k in range(4 * steps)]


class Slow:
    """An engine in the middle of a step: half of its state is new."""

    def __init__(self):
        self.state = self.estimate = "old"
        self.begun, self.goes_on = threading.Event(), threading.Event()

    def step(self, *_):
        self.state = self.estimate = "half"
        self.begun.set()
        assert self.goes_on.wait(30.0)
        self.state = self.estimate = "new"


@pytest.mark.parametrize(
    "read",
    [lambda o: o.state, lambda o: o.estimate, lambda o: copy.copy(o).state],
    ids=["state", "estimate", "copy"],
)
def test_nobody_sees_a_step_half_done(read):
    shared, engine = online("jax"), Slow()
    shared._engine = engine
    with ThreadPoolExecutor(2) as pool:
        pool.submit(shared.step, None)
        assert engine.begun.wait(30.0)
        seen = pool.submit(read, shared)
        time.sleep(0.1)
        engine.goes_on.set()
        assert seen.result() == "new"


class Driven(sw.Model):
    """x moves by its two inputs, and by no other number of them."""

    def transition(self, x, u, dt):
        if u is None or u.shape[0] != 2:
            raise sw.InputError("two inputs are needed")
        return x + u[:1] + u[1:]

    def observe(self, x, u):
        return x


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_that_were_refused_are_refused_again(backend):
    fed = sw.Online(sw.EKF(Driven(), [1.0], [1.0]), [0.0], [[1.0]], backend=backend)
    fed.step(None, [1.0, 2.0])
    for _ in range(2):
        with pytest.raises(sw.InputError, match="two inputs are needed"):
            fed.step(None, [5.0])
    assert float(fed.step(None, [1.0, 2.0])[0][0]) == pytest.approx(6.0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda o: pickle.loads(pickle.dumps(o))]
)
def test_a_copy_goes_on_from_the_same_state_by_itself(backend, copied):
    first = online(backend)
    assert copied(first).estimate is None
    first.step([2.0])
    second = copied(first)
    np.testing.assert_array_equal(second.estimate.x, first.estimate.x)
    ahead = second.step([1.5])
    second.step([9.0])
    np.testing.assert_allclose(ahead[0], first.step([1.5])[0], rtol=1e-6)
    assert abs(float(first.state.x[0]) - float(second.state.x[0])) > 0.5


FORKED = """
import os, warnings
import numpy as np
import sagewing as sw
warnings.simplefilter("ignore")

class Still(sw.Model):
    def transition(self, x, u, dt):
        return x

    def observe(self, x, u):
        return x

filt = sw.EKF(Still(), [1.0], [1.0])
online = sw.Online(filt, [0.0], [[1.0]], backend="jax")
online.step([1.0])
for use in (lambda: online.step([1.0]), lambda: sw.run(filt, [0.0], [[1.0]], np.ones((3, 1)))):
    child = os.fork()
    if not child:
        try:
            use()
        except sw.InputError as error:
            os._exit(7 if "spawn" in str(error) else 1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_is_refused_and_does_not_hang():
    run = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60.0
    )
    assert run.stdout.split() == ["7", "7"], run.stderr


def test_programs_of_record_lengths_that_are_no_longer_used_are_forgotten(monkeypatch):
    # By its name the module is hidden behind the function `run`
    monkeypatch.setattr(sys.modules["sagewing.filters.run"], "SIZES", 1)
    _programs.cache_clear()
    filt = sw.EKF(Counter(), [1.0], [1.0])
    kept = []
    for steps in (2, 3):
        sw.run(filt, [0.0], [[1.0]], np.ones((steps, 1)))
        record = sw.filters.checks.record(1, np.ones((steps, 1)), None, 0.01, None)
        kept.append(weakref.ref(_program(filt, record, None, None, options=xla_options()).func))
    gc.collect()
    assert [ref() is not None for ref in kept] == [False, True]
    _programs.cache_clear()


def test_a_record_of_the_same_size_is_not_compiled_again():
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, *_, **__: compiled.append(name) if "backend_compile" in name else None
    )
    try:
        for number in (1.0, 2.0, 3.0):  # other numbers, the same program
            sw.run(sw.EKF(Counter(), [number], [1.0]), [0.0], [[1.0]], np.ones((7, 1)))
            before, compiled[:] = len(compiled), []
    finally:
        jax.monitoring.clear_event_listeners()
    assert before == 0
