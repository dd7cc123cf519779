"""What several test files need."""

import os
import tempfile

import jax
import jaxtyping
import pytest

# The suite compiles thousands of programs that run for milliseconds. XLA is told to compile them
# quickly: without its optimisations, with the emitters that generate less code, and each as one
# module instead of up to 32 for its threads. A program that several tests need is compiled once.
# Processes that a test starts do the same. XLA_FLAGS of one's own, be it empty, are kept: with them
# the suite runs on the default emitters.
PROGRAMS = tempfile.TemporaryDirectory(prefix="sagewing-programs-")
SETTINGS = {
    "jax_compilation_cache_dir": PROGRAMS.name,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
    "jax_disable_most_optimizations": True,
}
for name, value in SETTINGS.items():
    jax.config.update(name, value)
    os.environ[name.upper()] = str(value)
FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
os.environ.setdefault("XLA_FLAGS", FLAGS)


@pytest.fixture(scope="module", autouse=True)
def forget_compilations():
    """A process has room for so many compiled programs; those of a file die with it."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="module")
def float64():
    """In 64 bits."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def as_a_user_runs_it():
    """Without the suite's shape checker, which would speak before the package does."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def unchecked_shapes():
    """For a file that generates C: the shape checker would make the generator five times slower."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
