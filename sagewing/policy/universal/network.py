"""The network that judges one kind of channel, the same for each of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from sagewing.policy.layers import MLP, Linear

Channels = Float[Array, "n *batch"]
Table = Float[Array, "m n *batch"]
Banks = Float[Array, "n bank *batch"]
Said = Float[Array, "n_out n *batch"]
Heard = Bool[Array, "n *batch"]
Rows = Shaped[Array, "..."]


class Network(eqx.Module):
    """The network of one kind of channel.

    Features feed a bank of running means, each with a rate that it learns; features and means
    together are judged by a few layers. What all channels have in common goes to both, and is
    weighed once.
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
        # At first it says nothing, and the filter is the EKF with the nominal noise.
        silent = jax.tree.map(lambda a: 0.01 * a, head.layers[-1])
        self.head = eqx.tree_at(lambda h: h.layers[-1], head, silent)

    def __call__(
        self, y: Table, bank: Banks, count: Channels, heard: Heard, common: Rows | None = None
    ) -> tuple[Said, Banks]:
        """What the head says, and the next bank."""
        more = None
        if self.common is not None:
            assert common is not None
            more = self.common @ common
        if y.ndim == 2:  # one record: channel by channel, which is what makes good C
            each = [self._judge(*one, more) for one in zip(y.T, bank, count, heard, strict=True)]
            said, bank = (jnp.stack(column) for column in zip(*each, strict=True))
            return said.T, bank
        if more is not None:
            more = jnp.broadcast_to(more[:, None], (more.shape[0], *y.shape[1:]))
            more = more.reshape((more.shape[0], -1))
        flat = [a.reshape((a.shape[0], -1)) for a in (y, jnp.swapaxes(bank, 0, 1))]
        said, new = self._judge(flat[0], flat[1], count.reshape(-1), heard.reshape(-1), more)
        new = new.reshape((new.shape[0], *y.shape[1:]))
        return said.reshape((said.shape[0], *y.shape[1:])), jnp.swapaxes(new, 0, 1)

    def _judge(
        self, y: Rows, bank: Rows, count: Rows, heard: Rows, more: Rows | None
    ) -> tuple[Rows, Rows]:
        """What one kind of channel says; `more` is added to what the encoder and the head hear."""
        fresh = self.encoder(y)
        if more is not None:
            fresh, more = fresh + more[: len(bank)], more[len(bank) :]
        share = share_of_now(jnp.exp(self.log_rates), count, heard)
        bank = bank + share * (jax.nn.relu(fresh) - bank)
        return self.head(jnp.concatenate([y, bank]), more), bank


def share_of_now(rates: Rows, count: Rows, heard: Rows) -> Rows:
    """How much of the present goes into running means; at first they are plain means."""
    rates = rates.reshape((-1, *(1,) * count.ndim))
    return jnp.where(heard, jnp.maximum(rates, 1.0 / jnp.maximum(count, 1.0)), 0.0)
