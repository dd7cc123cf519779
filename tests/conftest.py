"""What several test files need."""

import jax
import jaxtyping
import pytest


@pytest.fixture(scope="module")
def float64():
    """In 64 bits. These programs run for milliseconds and would be optimised for seconds each."""
    jax.config.update("jax_disable_most_optimizations", True)
    with jax.enable_x64(True):
        yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def as_a_user_runs_it():
    """Without the suite's shape checker, which would speak before the package does."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
