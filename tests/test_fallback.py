"""Compiled programs on disk: a damaged one is rebuilt, and where there is no C there is JAX."""

import errno
import json
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import equinox as eqx
import jax
import jaxtyping
import numpy as np
import pytest

import sagewing as sw
from sagewing import files
from sagewing.runtime import cache as cache_module
from sagewing.runtime import compiled as compiled_module
from sagewing.runtime import compiling as compiling_module
from sagewing.runtime import online as online_module
from sagewing.runtime.xla_cache import XlaCache


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own, and programs that are not shared with other tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for cached in (
        compiled_module._cached,
        online_module._warn_once,
        cache_module._compiler_and_target,
    ):
        cached.cache_clear()
    yield tmp_path / "sagewing"
    compiled_module._cached.cache_clear()
    cache_module._compiler_and_target.cache_clear()
    jaxtyping.config.update("jaxtyping_disable", False)


class Still(sw.Model):
    def transition(self, x, u, dt):
        return x

    def observe(self, x, u):
        return x


def online(backend="auto", model=None):
    filt = sw.EKF(model or Still(), [1.0], [1.0])
    return sw.Online(filt, [0.0], [[1.0]], backend=backend)


def as_in_another_process():
    compiled_module._cached.cache_clear()


def falls_back(words, model=None):
    """Online runs on JAX and says why, once; `backend="c"` says the same as an error."""
    first = online(model=model)
    with pytest.warns(RuntimeWarning, match=words):
        x, _ = first.step([1.0])
    assert np.all(np.isfinite(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first.step([1.0])
        online(model=model).step([1.0])
    with pytest.raises(sw.InputError, match=words):
        online("c", model).step([1.0])


def compiler(folder: Path, script: str) -> str:
    """A program in the place of the C compiler."""
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 0", "wrote nothing"),
        ('case "$*" in *filter.so*) : > filter.so;; esac', "wrote nothing"),
        ('case "$*" in *filter.so*) echo garbage > filter.so;; esac', "OSError"),
        ('case "$*" in *filter.so*) echo broken >&2; exit 1;; esac', "compiler failed"),
        ('case "$*" in *filter.so*) sleep 60 & wait;; esac', "did not end in 0.5 s"),
        ("kill -9 $$", "compiler failed"),
    ],
    ids=["nothing", "empty", "garbage", "fails", "hangs", "dies"],
)
def test_a_compiler_that_does_not_do_its_work(tmp_path, monkeypatch, script, words):
    monkeypatch.setattr(compiling_module, "TIME_LIMIT", 0.5)
    made = compiler(tmp_path, script)
    monkeypatch.setattr(cache_module, "_compiler", lambda: made)
    falls_back(words)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_cache_that_takes_no_more(monkeypatch, number):
    def full(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(cache_module, "write_atomically", full)
    falls_back(os.strerror(number))


def test_a_cache_that_is_a_file(cache):
    cache.write_text("")
    falls_back("cannot hold compiled programs")


def test_a_cache_from_which_nothing_may_be_executed(monkeypatch):
    class NoExec:
        def __getattr__(self, name):
            return getattr(ffi(), name)

        def dlopen(self, path):
            raise OSError(f"cannot load library {path}: failed to map segment from shared object")

    import cffi

    ffi = cffi.FFI
    monkeypatch.setattr(cffi, "FFI", NoExec)
    falls_back("failed to map segment")


@pytest.mark.parametrize("home", ["absent", "relative"])
def test_without_a_home_there_is_no_cache(tmp_path, monkeypatch, home):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / home) if home == "absent" else home)
    falls_back("no home folder")
    assert not (tmp_path / home).exists()


class Listed(Still):
    gains: list = eqx.field(default_factory=lambda: [1.0, 2.0])


class StaticallyListed(Still):
    gains: list = eqx.field(static=True, default_factory=lambda: [1.0, 2.0])


@pytest.mark.parametrize("model", [Listed, StaticallyListed])
@pytest.mark.parametrize("backend", ["c", "jax"])
def test_a_model_may_have_lists(model, backend):
    x, _ = online(backend, model()).step([1.0])
    np.testing.assert_allclose(x, [2.0 / 3.0], rtol=1e-6)


class Keyed(Still):
    key: jax.Array = eqx.field(default_factory=lambda: jax.random.key(0))

    def transition(self, x, u, dt):
        return x + 1e-3 * jax.random.normal(self.key, x.shape)


def test_a_model_with_a_random_key():
    falls_back("PRNGKey", Keyed())


@pytest.mark.parametrize("damage", ["cut", "half zeros", "no digest", "link"])
def test_a_damaged_library_is_built_again_and_not_loaded(cache, damage):
    online("c").step([1.0])
    (made,) = cache.glob("*.so")
    content = made.read_bytes()
    half = len(content) // 2
    damaged = {
        "cut": content[:half],
        "half zeros": content[:half] + bytes(len(content) - half),
    }.get(damage, content)
    made.unlink()  # it is in use
    made.write_bytes(damaged)
    made.chmod(0o700)
    if damage == "no digest":
        made.with_suffix(".sha256").unlink()
    if damage == "link":
        made.rename(cache / "elsewhere")
        made.symlink_to("/dev/zero")
    as_in_another_process()
    x, _ = online("c").step([1.0])
    np.testing.assert_allclose(x, [2.0 / 3.0], rtol=1e-6)
    assert files.sha256(made.read_bytes()) == made.with_suffix(".sha256").read_text()
    assert not made.is_symlink()


def test_the_programs_of_JAX_are_kept_with_digests(tmp_path):
    programs, key = XlaCache(tmp_path), "jit_f-0"
    assert programs.get(key) is None
    programs.put(key, b"program")
    assert programs.get(key) == b"program"
    entry = tmp_path / key
    content = entry.read_bytes()
    for damaged in (b"", content[:10], content[:-1], content[:-1] + b"x", content + b"x"):
        entry.write_bytes(damaged)
        assert programs.get(key) is None
        programs.put(key, b"program")  # JAX's own cache would leave it as it is
        assert programs.get(key) == b"program"
    entry.chmod(0o666)
    assert programs.get(key) is None


JITTED = """
import json, sys, warnings
import jax, jax.numpy as jnp
from sagewing.runtime.xla_cache import enable_compilation_cache
enable_compilation_cache()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
warnings.simplefilter("error")
y = float(jax.jit(lambda x: jnp.sin(x) + 1.0)(0.0))
print(json.dumps([y, events.count("/jax/compilation_cache/cache_hits")]))
"""


def jitted(folder):
    names = {k: v for k, v in os.environ.items() if not k.startswith("JAX")}
    run = subprocess.run(
        [sys.executable, "-c", JITTED],
        env={**names, "XDG_CACHE_HOME": str(folder)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_JAX_uses_a_private_cache_repairs_it_and_leaves_one_that_others_may_write_to(cache):
    assert jitted(cache.parent)[1] == 0
    value, hits = jitted(cache.parent)
    assert (value, hits > 0) == (1.0, True)
    entries = list((cache / "xla").iterdir())
    for path in entries:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.write_bytes(path.read_bytes()[:-7])
    assert jitted(cache.parent) == [1.0, 0]
    assert jitted(cache.parent) == [1.0, hits]
    for path in entries:
        path.unlink()
    cache.chmod(0o777)
    assert jitted(cache.parent) == [1.0, 0]
    assert list((cache / "xla").iterdir()) == []


def test_nothing_is_said_where_C_works():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        online().step([1.0])
