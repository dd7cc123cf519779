"""One policy for models of any size: a network for a measured channel, and one for a state.

Every channel is judged by the same network from dimensionless numbers, so the order, the number,
the units and the signs of channels and states make no difference. What it remembers are running
means alone: they forget at known rates, cannot run away however long the record, and cost a flight
computer no exponentials.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from sagewing.errors import InputError
from sagewing.filters import checks
from sagewing.filters.kernels import diagonal, matmul, matvec
from sagewing.filters.recursion import GainNoise
from sagewing.filters.rules import Around, Attenuation, Seen
from sagewing.policy.layers import MLP, Linear
from sagewing.policy.storage import Stored, number
from sagewing.shapes import Measurements, States

Channels = Float[Array, "n *batch"]
Table = Float[Array, "m n *batch"]
Banks = Float[Array, "n bank *batch"]
Said = Float[Array, "n_out n *batch"]
Heard = Bool[Array, "n *batch"]
Rows = Shaped[Array, "..."]

RATES = (0.1, 0.02, 0.004)  # of the running means of squares and of products with the last one
LARGEST_SQUARE = 16.0  # times its variance that a square counts in a mean
TINY = 1e-30  # keeps a quotient of nothing by nothing a number
SMALL = 0.01  # of a normalised square: less is no news
CLIP = 8.0  # of a feature
LEAST_YOUTH = 0.03  # 1 / sqrt(k) falls no further: what is learned at 1,000 steps holds for ever
MEASURED, STATE = 15, 14  # features
STEP_R, STEP_Q = 0.5, 0.3  # the largest change of log r and log q in a step
RELAXATION = 0.002  # of log q and log r toward their base in a step: without news they go back
MOST_INFLATION = 12.0  # of log r, for a step
CALM_D, CALM_INFLATION = -6.0, -5.0  # added to what the head says: at first, hardly anything
MOST_SIZE = 512


class Memory(NamedTuple):
    """Of every channel: what it said last, how often it has spoken, and the running means.

    The learned ones stand channel by channel, so that in C they are one vector each.
    """

    last: Channels
    times: Channels
    means: Table
    bank: Banks


class Network(eqx.Module):
    """The network of one kind of channel.

    Features feed a bank of running means, each with a rate that it learns; features and means
    together are judged by a few layers.
    """

    encoder: Linear
    log_rates: Float[Array, "bank"]
    head: MLP

    def __init__(
        self, n_in: int, bank: int, hidden: tuple[int, ...], n_out: int, *, key: PRNGKeyArray
    ):
        k_enc, k_head = jax.random.split(key)
        self.encoder = Linear(n_in, bank, key=k_enc)
        self.log_rates = jnp.log(jnp.geomspace(0.5, 0.005, bank))
        head = MLP([n_in + bank, *hidden, n_out], final_relu=False, key=k_head)
        # At first it says nothing, and the filter is the EKF with the nominal noise.
        silent = jax.tree.map(lambda a: 0.01 * a, head.layers[-1])
        self.head = eqx.tree_at(lambda h: h.layers[-1], head, silent)

    def __call__(self, y: Table, bank: Banks, count: Channels, heard: Heard) -> tuple[Said, Banks]:
        """What the head says, and the next bank."""
        if y.ndim == 2:  # one record: channel by channel, which is what makes good C
            each = [self._judge(*one) for one in zip(y.T, bank, count, heard, strict=True)]
            said, bank = (jnp.stack(column) for column in zip(*each, strict=True))
            return said.T, bank
        flat = [a.reshape((a.shape[0], -1)) for a in (y, jnp.swapaxes(bank, 0, 1))]
        said, new = self._judge(flat[0], flat[1], count.reshape(-1), heard.reshape(-1))
        new = new.reshape((new.shape[0], *y.shape[1:]))
        return said.reshape((said.shape[0], *y.shape[1:])), jnp.swapaxes(new, 0, 1)

    def _judge(self, y: Rows, bank: Rows, count: Rows, heard: Rows) -> tuple[Rows, Rows]:
        rates = jnp.exp(self.log_rates)
        bank = bank + _share(rates, count, heard) * (jax.nn.relu(self.encoder(y)) - bank)
        return self.head(jnp.concatenate([y, bank])), bank


class Universal(Stored):
    """The policy that adapts Q and R of any model; see docs/universal.md.

    `bounds`, `gain_noise` and `gate` are those of the filter that it was trained in, and the
    default of the filter that uses it. It keeps no noise of its own and adapts in every mode.

    Example: `sw.NDRSageHusa(model, Q0, R0, policy=sw.Policy.pretrained("universal"))`
    """

    kind: ClassVar[str] = "universal"
    bank: int = eqx.field(static=True)
    hidden: tuple[int, ...] = eqx.field(static=True)
    bounds: tuple[float, float] = eqx.field(static=True)
    gain_noise: GainNoise = eqx.field(static=True)
    measured: Network
    state: Network

    gate: ClassVar[None] = None
    adapts_in: ClassVar[None] = None
    nominal: ClassVar[None] = None

    def __init__(
        self,
        bank: int = 8,
        hidden: tuple[int, ...] = (16, 8),
        bounds: tuple[float, float] = (1e-5, 1e4),
        gain_noise: GainNoise = "posterior",
        *,
        key: PRNGKeyArray,
    ):
        checks.adaptation(bounds, gain_noise)
        for size in (bank, *hidden):
            if type(size) is not int or not 1 <= size <= MOST_SIZE:
                raise InputError(f"A layer has 1..{MOST_SIZE} neurons; got {size!r}.")
        k_measured, k_state = jax.random.split(key)
        self.bank = bank
        self.hidden = hidden
        self.bounds = bounds
        self.gain_noise = gain_noise
        self.measured = Network(MEASURED, bank, hidden, 3, key=k_measured)
        self.state = Network(STATE, bank, hidden, 2, key=k_state)

    def init(self, q: States, r: Measurements) -> tuple[Memory, Memory]:
        """Nothing seen yet."""

        def empty(v: jax.Array, means: int) -> Memory:
            none = jnp.zeros_like(v)
            known = jnp.zeros((means, *v.shape), v.dtype)
            bank = jnp.zeros((len(v), self.bank, *v.shape[1:]), v.dtype)
            return Memory(none, none, known, bank)

        return empty(r, 3 * len(RATES) + 1), empty(q, 3 * len(RATES))

    def __call__(
        self, memory: tuple[Memory, Memory], seen: Seen
    ) -> tuple[Attenuation, tuple[Memory, Memory], None]:
        """Shares, factors and inflation of every channel; what did not arrive changes nothing."""
        (of_r, of_q), around = memory, seen.around
        if around is None:
            raise InputError(
                "The universal policy must see the filter around it: use sw.NDRSageHusa."
            )
        switched = around.switched
        if switched is not None:
            of_r = jax.tree.map(lambda a: jnp.where(switched, 0.0, a), of_r)
        (d_r, up, step_r), of_r = self._measured(of_r, seen, around)
        inflation = jnp.minimum(jax.nn.softplus(up + CALM_INFLATION), MOST_INFLATION)
        (d_q, step_q), of_q = self._states(of_q, seen, around, inflation)
        decision = Attenuation(
            q=jax.nn.sigmoid(d_q + CALM_D),
            r=jax.nn.sigmoid(d_r + CALM_D),
            scale_q=_factor(STEP_Q, step_q, seen.q, around.q0 + TINY),
            scale_r=_factor(STEP_R, step_r, seen.r, around.r0),
            inflate_r=jnp.exp(inflation),
        )
        return decision, (of_r, of_q), None

    def _measured(self, memory: Memory, seen: Seen, around: Around) -> tuple[Said, Memory]:
        """Is a channel noisier than its r says, or does the filter not follow it?"""
        r, r0, S = seen.r / around.r0, around.r0, diagonal(seen.S)
        x, s = seen.nu / jnp.sqrt(r0), S / r0
        surprise = jnp.log(x**2 / s + SMALL)
        count = memory.times + seen.arrived
        values = [*_squares(x, memory.last, s), jnp.maximum(s - r, 0.0)]
        known = memory.means
        now = jnp.stack([*(v for v in values for _ in RATES), surprise])
        rates = jnp.asarray([*RATES * len(values), RATES[1]], x.dtype)
        known = known + _share(rates, count, seen.arrived) * (now - known)
        squares, products, predicted = known[:-1].reshape((len(values), len(RATES), *x.shape))
        y = [
            surprise,
            values[1] / (jnp.abs(values[1]) + s),
            *_contrast(squares, predicted + r),
            *(products / (squares + TINY)),
            *_contrast(jnp.maximum(squares - predicted, 0.0), r),
            known[-1],
            jnp.log((seen.r + TINY) / r0),
            jnp.log(S / seen.r),
            _youth(count),
        ]
        said, bank = self.measured(_bounded(y), memory.bank, count, seen.arrived)
        last = jnp.where(seen.arrived, x, memory.last)
        return said, Memory(last, count, known, bank)

    def _states(
        self, memory: Memory, seen: Seen, around: Around, refused: Measurements
    ) -> tuple[Said, Memory]:
        """Is a state corrected more than its q explains, and again and again the same way?"""
        q0 = around.q0 + TINY
        KL = matmul(seen.K, seen.L)
        moved = sum(jnp.moveaxis(KL**2, 1, 0), jnp.zeros_like(q0)) + TINY  # diag K S K^T
        x = matvec(seen.K, seen.nu) / jnp.sqrt(q0)
        s = moved / q0
        # How much of what moves this state was refused as an outlier, channel by channel.
        pull = seen.K**2 * diagonal(seen.S)[None]
        of_outliers = matvec(pull, refused) / (matvec(pull, jnp.ones_like(refused)) + TINY)
        heard = jnp.broadcast_to(jnp.any(seen.arrived, axis=0), x.shape)
        count = memory.times + heard
        values = [*_squares(x, memory.last, s), s]
        known = memory.means
        now = jnp.stack([v for v in values for _ in RATES])
        rates = jnp.asarray(RATES * len(values), x.dtype)
        known = known + _share(rates, count, heard) * (now - known)
        squares, products, predicted = known.reshape((len(values), len(RATES), *x.shape))
        y = [
            jnp.log(x**2 / s + SMALL),
            values[1] / (jnp.abs(values[1]) + s),
            *_contrast(squares, predicted),
            *(products / (squares + TINY)),
            0.5 * jnp.log((seen.q + TINY) / q0),
            0.5 * jnp.log((seen.q + TINY) / (around.FPF + TINY)),
            0.5 * jnp.log(moved / (seen.q + TINY)),
            0.5 * jnp.log(moved / (around.P + TINY)),
            of_outliers,
            _youth(count),
        ]
        said, bank = self.state(_bounded(y), memory.bank, count, heard)
        last = jnp.where(heard, x, memory.last)
        return said, Memory(last, count, known, bank)

    def check_sizes(self, n_x: int, n_z: int) -> None:
        """Any will do."""

    def card(self) -> dict[str, Any]:
        """The sizes, and the filter that the policy was trained in."""
        return {
            "architecture": {"bank": self.bank, "hidden": list(self.hidden)},
            "filter": {"bounds": list(self.bounds), "gain_noise": self.gain_noise},
        }

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "Universal":
        """A policy of these sizes."""
        sizes, inside = card["architecture"], card["filter"]
        if not isinstance(inside["bounds"], list):
            raise ValueError(f"bounds is {inside['bounds']!r}")
        low, high = (number(b) for b in inside["bounds"])
        own = ((low, high), inside["gain_noise"])
        return cls(sizes["bank"], tuple(sizes["hidden"]), *own, key=jax.random.key(0))


def _share(rates: Rows, count: Rows, heard: Rows) -> Rows:
    """How much of the present goes into running means; at first they are plain means."""
    rates = rates.reshape((-1, *(1,) * count.ndim))
    return jnp.where(heard, jnp.maximum(rates, 1.0 / jnp.maximum(count, 1.0)), 0.0)


def _squares(x: Channels, last: Channels, variance: Channels) -> tuple[Channels, Channels]:
    """x^2 and x times the last one, within reason."""
    most = LARGEST_SQUARE * variance
    return jnp.minimum(x**2, most), jnp.clip(x * last, -most, most)


def _contrast(a: jax.Array, b: jax.Array) -> jax.Array:
    """tanh(log(a / b) / 2), for positive numbers."""
    return (a - b) / (a + b + TINY)


def _factor(largest: float, step: Channels, now: Channels, base: Channels) -> Channels:
    """What the head says, and a little of the way back to the base."""
    back = RELAXATION * jnp.log((now + TINY) / base)
    return jnp.exp(largest * jax.nn.soft_sign(step) - back)


def _youth(count: Channels) -> Channels:
    return jnp.maximum(1.0 / jnp.sqrt(count + 1.0), LEAST_YOUTH)


def _bounded(y: Sequence[Channels]) -> Table:
    bounded = jnp.clip(jnp.stack(y), -CLIP, CLIP)
    return jnp.where(jnp.isnan(bounded), 0.0, bounded)
