"""A filter's C called from Python: the library, and one record that is filtered step by step."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sagewing.codegen import lag as fixed_lag
from sagewing.codegen.fields import Field
from sagewing.codegen.header import declarations
from sagewing.codegen.lanes import lanes_source
from sagewing.codegen.refusal import NotInC
from sagewing.codegen.source import c_source
from sagewing.errors import InputError
from sagewing.filters.parts import Rest, separated, together
from sagewing.filters.protocols import Filter
from sagewing.filters.step import Estimate
from sagewing.runtime.cache import FLAGS, library


class CompiledFilter:
    """The compiled functions of one filter, and the layout of its state.

    With `lanes` they run many records at once (`codegen/lanes.py`) and have no single steps; with
    `lag` there is a fixed-lag smoother, too (`codegen/lag.py`).
    """

    def __init__(
        self,
        filt: Filter,
        n_u: int,
        dtype: Any,
        folder: Path | None = None,
        flags: tuple[str, ...] = FLAGS,
        lanes: bool = False,
        lag: bool = False,
    ):
        try:
            from cffi import FFI
        except ImportError:
            raise NotInC("The package cffi, which calls C, is not installed.") from None
        real = np.dtype(dtype).type
        smoother = fixed_lag.lag_source(filt, n_u, dtype=real) if lag else None
        made = lanes_source(filt, n_u, real) if lanes else c_source(filt, n_u, dtype=real)
        self.n_u, self.dtype = n_u, np.dtype(dtype)
        self.layout = made.layout
        self.ffi: Any = FFI()
        self.ffi.cdef(declarations(made.layout, self.dtype))
        if smoother is not None:
            self.ffi.cdef(fixed_lag.declarations(made.layout))
            made = fixed_lag.called_from_python(made, smoother)
        self.library: Any = self.ffi.dlopen(str(library(made, folder, flags)))
        n_dx = filt.q0.size
        start = (jax.ShapeDtypeStruct(s, dtype) for s in ((filt.n_x,), (n_dx, n_dx)))
        shape = jax.eval_shape(filt.init, *start)
        self.structure = jax.tree.structure(shape)

    def views(self, structs: Any, kind: str, fields: list[Field]) -> dict[str, np.ndarray]:
        """Arrays over the members of an array of C structs, which are the first axis."""
        size = self.ffi.sizeof(kind)
        buffer = structs if isinstance(structs, np.ndarray) else self.ffi.buffer(structs)
        views = {}
        for field in fields:
            dtype = self.dtype if field.kind == "real" else np.dtype(np.intc)
            inner = np.empty(field.shape, dtype).strides
            view = np.ndarray(
                (len(buffer) // size, *field.shape),
                dtype,
                buffer,
                self.ffi.offsetof(kind, field.name),
                (size, *inner),
            )
            views[field.name] = view if field.used is None else view[..., : field.used]
        return views


def compiled_filter(
    filt: Filter, n_u: int, real: np.dtype, *, lanes: bool = False, lag: bool = False
) -> CompiledFilter:
    """The compiled filter, for one record or for many; equal filters of a process share one.

    Raises `NotInC` if it cannot be built or loaded: a full disk, a cache that cannot be written or
    executed, a compiler that fails, a model that cannot be hashed.
    """
    try:
        arrays, rest = separated(filt)
        numbers = tuple((a.shape, str(a.dtype), np.asarray(a).tobytes()) for a in arrays)
        return _cached(rest, numbers, n_u, real, lanes, lag)
    except InputError:  # an error of the model, which JAX would meet, too
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise NotInC(f"The filter could not be built or loaded. {why}") from error


@lru_cache(maxsize=64)
def _cached(
    rest: Rest, numbers: tuple[Any, ...], n_u: int, real: np.dtype, lanes: bool, lag: bool
) -> CompiledFilter:
    arrays = [jnp.asarray(np.frombuffer(d, dtype).reshape(shape)) for shape, dtype, d in numbers]
    return CompiledFilter(together(arrays, rest), n_u, real, lanes=lanes, lag=lag)


class CompiledRecord:
    """One record that a compiled filter is filtering: a C struct, and numpy views of it."""

    kind = "sw_record"
    state_in: tuple[str, ...] = ("state",)

    def __init__(self, filt: CompiledFilter, state: Any):
        ffi, made = filt.ffi, filt.layout
        self._filt = filt
        self._c = ffi.new(f"{self.kind} *")
        self._state_views = self._views(ffi.addressof(self._c, *self.state_in), "sw_state")
        self._estimate_views = self._views(ffi.addressof(self._c, "estimate"), "sw_estimate")
        self._z, self._u = (
            np.frombuffer(ffi.buffer(ffi.addressof(self._c, name)), filt.dtype)[:size]
            for name, size in (("z", made.n_z), ("u", made.n_u))
        )
        self._x, self._P = self._estimate_views["x"], self._estimate_views["P"]
        self._step = getattr(filt.library, f"{self.kind}_step")
        self.state = state

    def _views(self, struct: Any, kind: str) -> dict[str, np.ndarray]:
        """The members of one struct."""
        made = self._filt.layout
        fields = made.state if kind == "sw_state" else made.estimate
        return {n: view[0, ...] for n, view in self._filt.views(struct, kind, fields).items()}

    def step(
        self, z: np.ndarray, u: np.ndarray | None, dt: float, /
    ) -> tuple[np.ndarray, np.ndarray]:
        """One step; NaN in `z` is a channel that did not arrive."""
        self._z[...] = z
        if u is not None:
            self._u[...] = u
        self._step(self._c, dt)
        return self._x.copy(), self._P.copy()

    @property
    def state(self) -> Any:
        """The filter's state, as its `init` makes it."""
        return self._state(self._state_views)

    def _state(self, views: dict[str, np.ndarray]) -> Any:
        fields = zip(self._filt.layout.state, views.values(), strict=True)
        leaves = [view != 0 if field.kind == "bool" else view.copy() for field, view in fields]
        return jax.tree.unflatten(self._filt.structure, leaves)

    @state.setter
    def state(self, state: Any) -> None:
        for view, leaf in zip(self._state_views.values(), jax.tree.leaves(state), strict=True):
            view[...] = np.asarray(leaf)

    @property
    def estimate(self) -> Estimate | None:
        """The estimate of the last step."""
        views = self._estimate_views
        copies: dict[str, Any] = {name: views[name].copy() for name in Estimate._fields}
        return Estimate(**copies | {"ok": copies["ok"] != 0})
