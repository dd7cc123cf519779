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
        common_layer = Linear(n_common, bank + hidden[0], key=k_common) if n_common else None
        self.common = None if common_layer is None else common_layer.W
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
        shared = None
        if self.common is not None:
            assert common is not None
            shared = self.common @ common
        if y.ndim == 2:  # one record: one channel at a time, which generates better C
            by_channel = [
                self._one_channel(*channel, shared)
                for channel in zip(y.T, bank, count, arrived, strict=True)
            ]
            out, bank = (jnp.stack(outputs) for outputs in zip(*by_channel, strict=True))
            return out.T, bank
        if shared is not None:
            shared = jnp.broadcast_to(shared[:, None], (shared.shape[0], *y.shape[1:]))
            shared = shared.reshape((shared.shape[0], -1))
        flat = [a.reshape((a.shape[0], -1)) for a in (y, jnp.swapaxes(bank, 0, 1))]
        out, new_bank = self._one_channel(
            flat[0], flat[1], count.reshape(-1), arrived.reshape(-1), shared
        )
        new_bank = new_bank.reshape((new_bank.shape[0], *y.shape[1:]))
        return out.reshape((out.shape[0], *y.shape[1:])), jnp.swapaxes(new_bank, 0, 1)

    def _one_channel(
        self, y: Rows, bank: Rows, count: Rows, arrived: Rows, shared: Rows | None
    ) -> tuple[Rows, Rows]:
        """The outputs; `shared` is added in the encoder and in the first layer of the head."""
        encoded = self.encoder(y)
        if shared is not None:
            encoded, shared = encoded + shared[: len(bank)], shared[len(bank) :]
        weight = weight_of_new(jnp.exp(self.log_rates), count, arrived)
        bank = bank + weight * (jax.nn.relu(encoded) - bank)
        return self.head(jnp.concatenate([y, bank]), shared), bank


def weight_of_new(rates: Rows, count: Rows, arrived: Rows) -> Rows:
    """The weight of a new value in running means, which begin as arithmetic means."""
    rates = rates.reshape((-1, *(1,) * count.ndim))
    return jnp.where(arrived, jnp.maximum(rates, 1.0 / jnp.maximum(count, 1.0)), 0.0)
