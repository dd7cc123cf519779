"""The paper's network: features, encoder, N-deep GRU, context, policy head, decoder."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from sagewing.errors import InputError
from sagewing.filters.protocols import Dense, GainNoise
from sagewing.filters.step import Attenuation, StepInfo
from sagewing.policy.filter_settings import FilterSettings, StoredPolicy
from sagewing.policy.layers import GRU, MLP
from sagewing.policy.ndr.architecture import Architecture
from sagewing.policy.ndr.features import FEATURES, Features
from sagewing.policy.noise import Noise
from sagewing.policy.universal.policy import Universal
from sagewing.shapes import Errors, Measurements


class Trace(NamedTuple):
    """A step's values for the auxiliary loss: the features and their context."""

    y: Features
    c: Float[Array, "d_c *batch"]


class Policy(StoredPolicy):
    """The recurrent network that chooses a forgetting factor for every channel."""

    kind = "ndr"
    variants = (Universal,)
    arch: Architecture = eqx.field(static=True)
    encoder: MLP
    grus: tuple[GRU, ...]
    context: MLP
    head: MLP
    decoder: MLP

    def __init__(
        self,
        arch: Architecture,
        bounds: tuple[float, float] = (0.1, 100.0),
        gain_noise: GainNoise = "prior",
        nominal: Noise | None = None,
        gate: float | None = None,
        adapts_in: tuple[int, ...] | None = None,
        dense: Dense = False,
        *,
        key: PRNGKeyArray,
    ):
        super().__init__(FilterSettings(bounds, gain_noise, nominal, gate, adapts_in, dense))
        k_enc, k_gru, k_ctx, k_head, k_dec = jax.random.split(key, 5)
        n_in = [arch.encoder[-1]] + [arch.hidden] * (arch.depth - 1)
        # p_k is the context and, with more than one layer, also the deepest layer's state.
        n_p = arch.context[-1] + (arch.hidden if arch.depth > 1 else 0)
        self.arch = arch
        self.encoder = MLP([arch.n_y, *arch.encoder], final_relu=True, key=k_enc)
        self.grus = tuple(
            GRU(n, arch.hidden, key=k)
            for n, k in zip(n_in, jax.random.split(k_gru, arch.depth), strict=True)
        )
        self.context = MLP([arch.hidden, *arch.context], final_relu=True, key=k_ctx)
        self.head = MLP([n_p, *arch.head, arch.n_x + arch.n_z], final_relu=False, key=k_head)
        self.decoder = MLP([arch.context[-1], *arch.decoder, arch.n_y], final_relu=False, key=k_dec)

    def init(self, q: Errors, r: Measurements) -> tuple[jax.Array, ...]:
        """The hidden states before the first step."""
        h = jnp.zeros((self.arch.hidden, *q.shape[1:]), q.dtype)
        return (h,) * self.arch.depth

    def __call__(
        self, memory: tuple[jax.Array, ...], info: StepInfo
    ) -> tuple[Attenuation, tuple[jax.Array, ...], Trace]:
        """d_k = sigmoid(pi(p_k)), the next hidden states, and the trace for the decoder."""
        arch = self.arch
        y = jnp.clip(FEATURES[arch.features].build(info), -arch.clip, arch.clip)
        signal, hidden = self.encoder(y), []
        for gru, h in zip(self.grus, memory, strict=True):
            signal = gru(signal, h)
            hidden.append(signal)
        c = self.context(hidden[0])
        p = jnp.concatenate([c, hidden[-1]]) if arch.depth > 1 else c
        d = jax.nn.sigmoid(self.head(p))
        return Attenuation(q=d[: arch.n_x], r=d[arch.n_x :]), tuple(hidden), Trace(y, c)

    def check_sizes(self, n_x: int, n_z: int) -> None:
        """Refuse a model of other dimensions."""
        if (n_x, n_z) != (self.arch.n_x, self.arch.n_z):
            raise InputError(
                f"policy was made for n_x = {self.arch.n_x} states and n_z = {self.arch.n_z} "
                f"channels; Q0 and R0 say n_x = {n_x} and n_z = {n_z}. Train one for this model."
            )

    def reconstruct(self, c: Float[Array, "T d_c *batch"]) -> Float[Array, "T n_y *batch"]:
        """Reconstruct the features of a whole record from its contexts: the auxiliary decoder."""
        return jax.vmap(self.decoder)(c)

    def card(self) -> dict[str, Any]:
        """The sizes, and the settings of the policy's filter."""
        return {**self.arch.card(), **super().card()}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "Policy":
        """A policy of these sizes."""
        settings = FilterSettings.from_card(card)
        return cls(Architecture.from_card(card), *settings, key=jax.random.key(0))
