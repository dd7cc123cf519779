"""The online filter on C: the numbers of JAX, and a cache that nobody else can write to."""

import multiprocessing
import os
import shutil
import warnings

import jaxtyping
import numpy as np
import pytest

import sagewing as sw
from sagewing.codegen.source import c_source
from sagewing.runtime import compiled as compiled_module
from sagewing.runtime import online as online_module
from sagewing.runtime.cache import library
from sagewing.runtime.cache_folder import private_folder

X0, P0 = np.array([-8.0, -6.0, 25.0]), np.eye(3)


def ekf(r=1.0):
    return sw.EKF(sw.models.Lorenz(), [0.01] * 3, [r, 2.0])


class Thrust(sw.Model):
    def transition(self, x, u, dt):
        return x + dt * (u if u is not None else 1.0)

    def observe(self, x, u):
        return x


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own, and no type checker inside the generator."""
    jaxtyping.config.update("jaxtyping_disable", True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled_module._cached.cache_clear()
    online_module._warn_once.cache_clear()
    yield tmp_path / "sagewing"
    jaxtyping.config.update("jaxtyping_disable", False)


def test_C_and_JAX_say_the_same():
    rng = np.random.default_rng(0)
    by_c, by_jax = (sw.Online(ekf(), X0, P0, backend=b) for b in ("c", "jax"))
    for k in range(30):
        z = None if k == 7 else X0[[0, 2]] + rng.normal(size=2)
        mask = [k % 3 > 0, True]
        (x, P), (x_jax, P_jax) = (o.step(z, dt=0.01, mask=mask) for o in (by_c, by_jax))
        np.testing.assert_allclose(x, x_jax, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(P, P_jax, rtol=1e-4, atol=1e-4)
    assert by_c.estimate is not None
    np.testing.assert_allclose(by_c.estimate.nis, by_jax.estimate.nis, rtol=1e-2, atol=1e-4)
    np.testing.assert_allclose(by_c.state.P, by_jax.state.P, rtol=1e-4, atol=1e-4)


def test_what_a_step_returned_stays():
    online = sw.Online(ekf(), X0, P0, backend="c")
    x, P = online.step([1.0, 2.0])
    before = x.copy(), P.copy()
    online.step([3.0, 4.0])
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(P, before[1])


def test_inputs_may_come_and_go():
    online = sw.Online(sw.EKF(Thrust(), [1.0], [1e9]), [0.0], [[1.0]], backend="c")
    online.step(None, u=[2.0], dt=1.0)
    x, _ = online.step(None, dt=1.0)
    np.testing.assert_allclose(x, [3.0])


def test_a_second_filter_is_not_compiled_again(cache):
    sw.Online(ekf(), X0, P0, backend="c").step([1.0, 2.0])
    compiled_module._cached.cache_clear()  # as in another process
    sw.Online(ekf(), X0, P0, backend="c").step([1.0, 2.0])
    assert len(list(cache.glob("*.so"))) == 1
    sw.Online(ekf(r=3.0), X0, P0, backend="c").step([1.0, 2.0])
    assert len(list(cache.glob("*.so"))) == 2


def _build(made, folder):
    os._exit(0 if library(made, folder).exists() else 1)


def test_two_processes_may_start_at_once(tmp_path):
    made = c_source(ekf(), dtype=np.float32)
    parts = made.header, made.code, None, made.operations
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_build, args=(type(made)(*parts), tmp_path / "c")) for _ in "ab"]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert len(list((tmp_path / "c").glob("*.so"))) == 1


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path, mode):
    folder = tmp_path / "open" / "cache"
    folder.mkdir(parents=True)
    for which in (folder, folder.parent):
        which.chmod(mode)
        with pytest.raises(sw.InputError, match="writable by others"):
            private_folder(folder)
        which.chmod(0o700)
    assert private_folder(folder) == folder.resolve()


def test_the_cache_is_private_whatever_the_umask(tmp_path):
    """Many systems have 002: the folders above the cache would be open to the user's group."""
    before = os.umask(0o002)
    try:
        folder = private_folder(tmp_path / "home" / "sagewing" / "xla")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (folder, *folder.parents[:2])} == {0o700}


def test_without_a_compiler_JAX_runs_it_and_says_so_once(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.warns(RuntimeWarning, match="no C compiler"):
        x, _ = sw.Online(ekf(), X0, P0).step([1.0, 2.0])
    assert np.all(np.isfinite(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.Online(ekf(), X0, P0).step([1.0, 2.0])
    with pytest.raises(sw.InputError, match="no C compiler"):
        sw.Online(ekf(), X0, P0, backend="c").step([1.0, 2.0])


def test_an_unknown_backend_is_named():
    with pytest.raises(sw.InputError, match="'fortran'"):
        sw.Online(ekf(), X0, P0, backend="fortran")
