"""The network of the learned baselines: one recurrent layer between linear ones."""

from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from sagewing.errors import InputError
from sagewing.policy.layers import GRU, MLP, Elman
from sagewing.policy.ndr.architecture import LARGEST
from sagewing.policy.storage import Stored, numbers
from sagewing.shapes import States

Purpose = Literal["enn-akf", "l-ekf", "kalmannet"]
HIDDEN = 64  # paper, section "Benchmarked Baselines"
# The bound of a network's inputs.
CLIP = 50.0


class Network(Stored):
    """A recurrent network in a filter; `purpose` names the filter, which sets inputs and outputs.

    `offset` and `scale` are the mean and the standard deviation of the training states,
    `step_scale` the standard deviation of their change in one step.
    """

    kind: ClassVar[str] = "network"
    purpose: Purpose = eqx.field(static=True)
    n_x: int = eqx.field(static=True)
    n_z: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    offset: tuple[float, ...] = eqx.field(static=True)
    scale: tuple[float, ...] = eqx.field(static=True)
    step_scale: tuple[float, ...] = eqx.field(static=True)
    before: MLP | None
    cell: Elman | GRU
    after: MLP

    def __init__(
        self,
        purpose: Purpose,
        n_x: int,
        n_z: int,
        hidden: int = HIDDEN,
        offset: tuple[float, ...] | None = None,
        scale: tuple[float, ...] | None = None,
        step_scale: tuple[float, ...] | None = None,
        *,
        key: PRNGKeyArray,
    ):
        sizes = {
            "enn-akf": (2 * n_x + n_z, n_x),
            "l-ekf": (n_x + n_z, n_x * n_z),
            "kalmannet": (2 * n_x + n_z, n_x * n_z),
        }
        if purpose not in sizes:
            raise InputError(f"purpose must be one of {', '.join(sizes)}; got {purpose!r}.")
        for name, size in (("n_x", n_x), ("n_z", n_z), ("hidden", hidden)):
            if type(size) is not int or not 1 <= size <= LARGEST:
                raise InputError(f"{name} must lie in 1..{LARGEST}; got {size}.")
        n_in, n_out = sizes[purpose]
        k_before, k_cell, k_after = jax.random.split(key, 3)
        self.purpose, self.n_x, self.n_z, self.hidden = purpose, n_x, n_z, hidden
        self.offset = (0.0,) * n_x if offset is None else offset
        self.scale = (1.0,) * n_x if scale is None else scale
        self.step_scale = (1.0,) * n_x if step_scale is None else step_scale
        for name in ("offset", "scale", "step_scale"):
            if len(getattr(self, name)) != n_x:
                raise InputError(f"{name} must have {n_x} numbers; got {getattr(self, name)}.")
            if name != "offset" and min(getattr(self, name)) <= 0.0:
                raise InputError(f"{name} must be positive; got {getattr(self, name)}.")
        self.before = None
        if purpose == "kalmannet":
            self.before = MLP([n_in, hidden], final_relu=True, key=k_before)
            n_in = hidden
        self.cell = (Elman if purpose == "enn-akf" else GRU)(n_in, hidden, key=k_cell)
        inner = [hidden] if purpose == "kalmannet" else []
        self.after = MLP([hidden, *inner, n_out], final_relu=False, key=k_after)

    def init(self, x: States) -> jax.Array:
        """The hidden state before the first step."""
        return jnp.zeros((self.hidden, *x.shape[1:]), x.dtype)

    def __call__(
        self, memory: jax.Array, y: Float[Array, "n_in *batch"]
    ) -> tuple[Float[Array, "n_out *batch"], jax.Array]:
        """The output and the next hidden state."""
        y = jnp.clip(jnp.nan_to_num(y), -CLIP, CLIP)
        y = y if self.before is None else self.before(y)
        memory = self.cell(y, memory)
        return self.after(memory), memory

    def standard(self, x: States) -> States:
        """The state in standard deviations of the training domain."""
        return (x - _column(self.offset, x)) / _column(self.scale, x)

    def standard_step(self, change: States) -> States:
        """A change of the state in standard deviations of the training domain."""
        return change / _column(self.step_scale, change)

    def check(self, purpose: Purpose) -> None:
        """Refuse another filter than that of the network's purpose."""
        if self.purpose != purpose:
            raise InputError(f"network was made for {self.purpose}, not for {purpose}.")

    def check_sizes(self, n_x: int, n_z: int) -> None:
        """Refuse a model of other dimensions."""
        if (n_x, n_z) != (self.n_x, self.n_z):
            raise InputError(
                f"network was made for n_x = {self.n_x} states and n_z = {self.n_z} channels; "
                f"Q0 and R0 say n_x = {n_x} and n_z = {n_z}. Train one for this model."
            )

    def card(self) -> dict[str, Any]:
        """The purpose, the sizes and the normalisation."""
        sizes = {"purpose": self.purpose, "n_x": self.n_x, "n_z": self.n_z, "hidden": self.hidden}
        scales = {n: list(getattr(self, n)) for n in ("offset", "scale", "step_scale")}
        return {"architecture": sizes, "normalisation": scales}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "Network":
        """A network of these sizes."""
        sizes, scales = card["architecture"], card["normalisation"]
        offset, scale, step_scale = (
            numbers(scales[name], LARGEST) for name in ("offset", "scale", "step_scale")
        )
        shape = (sizes["n_x"], sizes["n_z"], sizes["hidden"])
        return cls(sizes["purpose"], *shape, offset, scale, step_scale, key=jax.random.key(0))


def _column(values: tuple[float, ...], x: States) -> jax.Array:
    return jnp.asarray(values, x.dtype).reshape((-1, *(1,) * (x.ndim - 1)))
