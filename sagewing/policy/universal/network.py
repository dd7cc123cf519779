"""The network of one kind of channel, with the same weights for every channel."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from sagewing.policy.layers import MLP, Linear

Channels = Float[Array, "n *batch"]
Table = Float[Array, "m n *batch"]
Banks = Float[Array, "n bank *batch"]
Outputs = Float[Array, "n_out n *batch"]
Flagged = Bool[Array, "n *batch"]
Rows = Shaped[Array, "..."]


class ChannelNetwork(eqx.Module):
    """The network of one kind of channel.

    Features enter a bank of running means with learned rates; a few layers compute the outputs from
    features and means. The features that all channels share enter both, through one matrix that is
    applied once.
    """

    encoder: Linear
    log_rates: Float[Array, "bank"]
    head: MLP
    common: Float[Array, "bank_and_hidden n_common"] | None

    def __init__(
        self,
        n_in: int,
        bank: int,
        hidden: tuple[int, ...],
        n_out: int,
        n_common: int = 0,
        *,
        key: PRNGKeyArray,
    ):
        k_enc, k_head, k_common = jax.random.split(key, 3)
        both = Linear(n_common, bank + hidden[0], key=k_common) if n_common else None
        self.common = None if both is None else both.W
        self.encoder = Linear(n_in, bank, key=k_enc)
        self.log_rates = jnp.log(jnp.geomspace(0.5, 0.005, bank))
        head = MLP([n_in + bank, *hidden, n_out], final_relu=False, key=k_head)
        # The initial outputs are small: the filter is nearly the EKF with the nominal noise.
        small = jax.tree.map(lambda a: 0.01 * a, head.layers[-1])
        self.head = eqx.tree_at(lambda h: h.layers[-1], head, small)

    def __call__(
        self, y: Table, bank: Banks, count: Channels, arrived: Flagged, common: Rows | None = None
    ) -> tuple[Outputs, Banks]:
        """The outputs, and the next bank."""
        more = None
        if self.common is not None:
            assert common is not None
            more = self.common @ common
        if y.ndim == 2:  # one record: one channel at a time, which generates better C
            each = [
                self._one_channel(*one, more) for one in zip(y.T, bank, count, arrived, strict=True)
            ]
            out, bank = (jnp.stack(column) for column in zip(*each, strict=True))
            return out.T, bank
        if more is not None:
            more = jnp.broadcast_to(more[:, None], (more.shape[0], *y.shape[1:]))
            more = more.reshape((more.shape[0], -1))
        flat = [a.reshape((a.shape[0], -1)) for a in (y, jnp.swapaxes(bank, 0, 1))]
        out, new = self._one_channel(flat[0], flat[1], count.reshape(-1), arrived.reshape(-1), more)
        new = new.reshape((new.shape[0], *y.shape[1:]))
        return out.reshape((out.shape[0], *y.shape[1:])), jnp.swapaxes(new, 0, 1)

    def _one_channel(
        self, y: Rows, bank: Rows, count: Rows, arrived: Rows, more: Rows | None
    ) -> tuple[Rows, Rows]:
        """The outputs; `more` is added in the encoder and in the first layer of the head."""
        fresh = self.encoder(y)
        if more is not None:
            fresh, more = fresh + more[: len(bank)], more[len(bank) :]
        weight = weight_of_new(jnp.exp(self.log_rates), count, arrived)
        bank = bank + weight * (jax.nn.relu(fresh) - bank)
        return self.head(jnp.concatenate([y, bank]), more), bank


def weight_of_new(rates: Rows, count: Rows, arrived: Rows) -> Rows:
    """The weight of a new value in running means, which begin as arithmetic means."""
    rates = rates.reshape((-1, *(1,) * count.ndim))
    return jnp.where(arrived, jnp.maximum(rates, 1.0 / jnp.maximum(count, 1.0)), 0.0)
