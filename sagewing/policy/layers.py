"""The layers of the networks, batch in the last axis."""

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from sagewing.shapes import real_dtype

In = Float[Array, "n_in *batch"]
Out = Float[Array, "n_out *batch"]
Hidden = Float[Array, "n_hidden *batch"]


def _uniform(key: PRNGKeyArray, shape: tuple[int, ...], fan: int) -> jax.Array:
    return jax.random.uniform(key, shape, real_dtype(), -(fan**-0.5), fan**-0.5)


def _bias(b: jax.Array, y: jax.Array) -> jax.Array:
    return b.reshape(b.shape + (1,) * (y.ndim - 1))


class Linear(eqx.Module):
    """W y + b."""

    W: Float[Array, "n_out n_in"]
    b: Float[Array, "n_out"]

    def __init__(self, n_in: int, n_out: int, *, key: PRNGKeyArray):
        k_W, k_b = jax.random.split(key)
        self.W = _uniform(k_W, (n_out, n_in), n_in)
        self.b = _uniform(k_b, (n_out,), n_in)

    def __call__(self, y: In) -> Out:
        """The layer's output."""
        return self.W @ y + _bias(self.b, y)


class MLP(eqx.Module):
    """Linear layers with a ReLU after each; after the last one only with `final_relu`."""

    layers: tuple[Linear, ...]
    final_relu: bool = eqx.field(static=True)

    def __init__(self, sizes: Sequence[int], *, final_relu: bool, key: PRNGKeyArray):
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(
            Linear(a, b, key=k) for (a, b), k in zip(pairwise(sizes), keys, strict=True)
        )
        self.final_relu = final_relu

    def __call__(self, y: In, added: Hidden | None = None) -> Out:
        """The network's output; `added` is added to the output of the first layer."""
        for i, layer in enumerate(self.layers):
            y = layer(y) if i or added is None else layer(y) + added
            if self.final_relu or i + 1 < len(self.layers):
                y = jax.nn.relu(y)
        return y


class Elman(eqx.Module):
    """A plain recurrent layer (Elman 1990): h = tanh(W y + U h + b)."""

    W: Float[Array, "n_hidden n_in"]
    U: Float[Array, "n_hidden n_hidden"]
    b: Float[Array, "n_hidden"]

    def __init__(self, n_in: int, n_hidden: int, *, key: PRNGKeyArray):
        k_W, k_U, k_b = jax.random.split(key, 3)
        self.W = _uniform(k_W, (n_hidden, n_in), n_hidden)
        self.U = _uniform(k_U, (n_hidden, n_hidden), n_hidden)
        self.b = _uniform(k_b, (n_hidden,), n_hidden)

    def __call__(self, y: In, h: Hidden) -> Hidden:
        """The next hidden state."""
        return jnp.tanh(self.W @ y + self.U @ h + _bias(self.b, h))


class GRU(eqx.Module):
    """A gated recurrent unit (Cho 2014), gates in the order reset, update, candidate."""

    W: Float[Array, "gates n_in"]
    U: Float[Array, "gates n_hidden"]
    b: Float[Array, "gates"]
    b_n: Float[Array, "n_hidden"]

    def __init__(self, n_in: int, n_hidden: int, *, key: PRNGKeyArray):
        k_W, k_U, k_b, k_n = jax.random.split(key, 4)
        self.W = _uniform(k_W, (3 * n_hidden, n_in), n_hidden)
        self.U = _uniform(k_U, (3 * n_hidden, n_hidden), n_hidden)
        self.b = _uniform(k_b, (3 * n_hidden,), n_hidden)
        self.b_n = _uniform(k_n, (n_hidden,), n_hidden)

    def __call__(self, y: In, h: Hidden) -> Hidden:
        """The next hidden state."""
        n = h.shape[0]
        a = self.W @ y + _bias(self.b, y)
        c = self.U @ h
        reset = jax.nn.sigmoid(a[:n] + c[:n])
        update = jax.nn.sigmoid(a[n : 2 * n] + c[n : 2 * n])
        candidate = jnp.tanh(a[2 * n :] + reset * (c[2 * n :] + _bias(self.b_n, h)))
        return (1.0 - update) * candidate + update * h
