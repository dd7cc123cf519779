"""What several test files need."""

import jax
import jaxtyping
import pytest


@pytest.fixture(scope="module", autouse=True)
def forget_compilations():
    """A process has room for so many compiled programs; those of a file die with it."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="module")
def hardly_optimised():
    """For programs that run for milliseconds and would be optimised for seconds each."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def float64(hardly_optimised):
    """In 64 bits."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def as_a_user_runs_it():
    """Without the suite's shape checker, which would speak before the package does."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
