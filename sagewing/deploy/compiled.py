"""A filter's C, called from Python without copying more than the numbers of a step."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from sagewing.deploy.c99 import source
from sagewing.deploy.cache import FLAGS, library
from sagewing.deploy.header import declarations
from sagewing.deploy.program import Field
from sagewing.deploy.refusal import NotInC
from sagewing.filters.recursion import Estimate


class CompiledFilter:
    """The compiled `init` and `step` of one filter, and the layout of its state."""

    def __init__(
        self,
        filt: Any,
        n_u: int,
        dtype: Any,
        folder: Path | None = None,
        flags: tuple[str, ...] = FLAGS,
    ):
        try:
            from cffi import FFI
        except ImportError:
            raise NotInC("The package cffi, which calls C, is not installed.") from None
        made = source(filt, n_u, dtype=np.dtype(dtype).type)
        self.n_u, self.dtype = n_u, np.dtype(dtype)
        self.program = made.program
        self.ffi = FFI()
        self.ffi.cdef(declarations(made.program, self.dtype))
        self.library: Any = self.ffi.dlopen(str(library(made, folder, flags)))
        shape = jax.eval_shape(
            filt.init, *(jax.ShapeDtypeStruct(s, dtype) for s in ((filt.n_x,), (filt.n_x,) * 2))
        )
        self.structure = jax.tree.structure(shape)


class Record:
    """One filter at work: its C structs, and numpy arrays that show what is in them."""

    def __init__(self, compiled: CompiledFilter, state: Any):
        ffi: Any = compiled.ffi
        made = compiled.program
        self._compiled = compiled
        self._c_state, self._c_estimate = ffi.new("sw_state *"), ffi.new("sw_estimate *")
        self._c_z, self._c_u = (ffi.new("sw_real[]", max(n, 1)) for n in (made.n_z, made.n_u))
        self._fields = _views(ffi, self._c_state, made.state, compiled.dtype)
        self._said = _views(ffi, self._c_estimate, made.estimate, compiled.dtype)
        self._z, self._u = (
            np.frombuffer(ffi.buffer(c), compiled.dtype)[:n]
            for c, n in ((self._c_z, made.n_z), (self._c_u, made.n_u))
        )
        self._x, self._P = self._said["x"], self._said["P"]
        self._call, self._predict_only = compiled.library.sw_step, compiled.library.sw_predict_only
        self._n_u = made.n_u
        self.state = state

    def step(self, z: np.ndarray, u: np.ndarray | None, dt: float) -> tuple[np.ndarray, np.ndarray]:
        """One step; NaN in `z` is a channel that did not arrive."""
        self._z[:] = z
        if self._n_u:
            self._u[:] = u
        self._call(self._c_state, self._c_z, self._c_u, dt, self._c_estimate)
        return self._x.copy(), self._P.copy()

    def predict_only(self, u: np.ndarray | None, dt: float) -> tuple[np.ndarray, np.ndarray]:
        """The same where nothing was measured."""
        if self._n_u:
            self._u[:] = u
        self._predict_only(self._c_state, self._c_u, dt, self._c_estimate)
        return self._x.copy(), self._P.copy()

    @property
    def state(self) -> Any:
        """The filter's state, as its `init` makes it."""
        leaves = [view.copy() for view in self._fields.values()]
        return jax.tree.unflatten(self._compiled.structure, leaves)

    @state.setter
    def state(self, state: Any) -> None:
        for view, leaf in zip(self._fields.values(), jax.tree.leaves(state), strict=True):
            view[...] = np.asarray(leaf)

    @property
    def estimate(self) -> Estimate:
        """All that the last step said."""
        said: dict[str, Any] = {name: view.copy() for name, view in self._said.items()}
        return Estimate(**said | {"ok": said["ok"] != 0}, trace=None)


def _views(ffi: Any, struct: Any, fields: list[Field], dtype: np.dtype) -> dict[str, np.ndarray]:
    """Arrays over the members of a struct."""
    views = {}
    for field in fields:
        kind = dtype if field.kind == "real" else np.dtype(np.intc)
        buffer = ffi.buffer(ffi.addressof(struct, field.name), field.size * kind.itemsize)
        views[field.name] = np.frombuffer(buffer, kind).reshape(field.shape)
    return views
