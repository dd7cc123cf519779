"""The steps of records for training: in C, with a derivative in C, or in JAX."""

import ctypes
import os
from collections.abc import Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.ffi
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.custom_derivatives import SymbolicZero

from sagewing.codegen.header import CALLING
from sagewing.codegen.refusal import NotInC
from sagewing.codegen.training.program import Shapes, training_program
from sagewing.codegen.training.source import NAME, training_source
from sagewing.errors import InputError
from sagewing.filters.loop import Save, scan
from sagewing.filters.parts import Rest, separated, together
from sagewing.filters.protocols import Filter
from sagewing.runtime.cache import FLAGS, library_of

TrainingBackend = Literal["auto", "c", "jax"]
FILES = ("training.c", "products.c", "products.h", "lanes.h")


class CompiledTraining:
    """The compiled steps and derivative of a filter with these parameters, known to XLA."""

    def __init__(
        self,
        static: "Static",
        given: Shapes,
        trained: tuple[bool, ...],
    ) -> None:
        made = training_program(static.filter, static.save, given, trained)
        source = training_source(made)
        files = {f"{NAME}.h": source.header, f"{NAME}.c": source.code}
        files |= {name: (CALLING / name).read_text(encoding="utf-8") for name in FILES}
        flags = (*FLAGS, "-pthread", f"-I{jax.ffi.include_dir()}")
        path = library_of(files, None, flags)
        library = _known_to_xla(path)
        self.name = _name(path)
        self.sizes, self.lanes = source.sizes, library.sw_training_lanes()
        self.parts, self.work = library.sw_training_parts(), library.sw_training_work()
        self.threads = min(_cores(), self.parts)
        self.layout = made.layout

    def forward(self, parameters: Any, start: Any, measured: Sequence[Any]) -> tuple[Any, Any]:
        """What is saved of the steps, and what the derivative needs."""
        T, B = measured[3].shape
        saved = jax.ShapeDtypeStruct((T, self.sizes["SAVED"], B), self.layout.dtype)
        kept = jax.ShapeDtypeStruct((B * T * self.sizes["KEPT"],), self.layout.dtype)
        call = jax.ffi.ffi_call(f"{self.name}_forward", (saved, kept), vmap_method="sequential")
        saved, kept = call(parameters, start, *measured)
        return saved, kept

    def reverse(
        self, parameters: Any, kept: Any, measured: Sequence[Any], saved_bar: Any
    ) -> tuple[Any, Any]:
        """The derivatives by the parameters and by the first state."""
        gradient = jax.ShapeDtypeStruct((self.sizes["PARAMETERS"],), self.layout.dtype)
        start_bar = jax.ShapeDtypeStruct(
            (self.sizes["CARRY"], saved_bar.shape[-1]), self.layout.dtype
        )
        parts = jax.ShapeDtypeStruct((self.parts * self.sizes["PARAMETERS"],), self.layout.dtype)
        work = jax.ShapeDtypeStruct((self.threads * self.work,), self.layout.dtype)
        call = jax.ffi.ffi_call(
            f"{self.name}_reverse", (gradient, start_bar, parts, work), vmap_method="sequential"
        )
        gradient, start_bar, *_ = call(parameters, kept, *measured, saved_bar)
        return gradient, start_bar


def scan_for_training(
    filt: Filter,
    state: Any,
    z: Any,
    u: Any,
    dt: Any,
    arrived: Any,
    save: Save,
    backend: TrainingBackend = "jax",
) -> Any:
    """What `save` returns of each step, as that of `scan`, for records of a training.

    `filt` holds the trained parameters, which JAX traces. With "auto" what has no C runs in JAX.
    """
    if backend == "jax":
        return scan(filt, state, z, u, dt, arrived, save)[1]
    arrays, rest = separated(filt)
    traced = tuple(isinstance(a, Tracer) for a in arrays)
    constant = tuple(
        None if flag else (a.shape, str(a.dtype), np.asarray(a).tobytes())
        for a, flag in zip(arrays, traced, strict=True)
    )
    given = [a for a, flag in zip(arrays, traced, strict=True) if flag]
    static = Static(rest, constant, save)
    try:
        hash(static)
    except TypeError:  # such as a list in a model
        if backend == "c":
            raise InputError("Training in C needs a filter that can be hashed.") from None
        return scan(filt, state, z, u, dt, arrived, save)[1]
    return _steps(static, backend == "c", tuple(given), state, (z, arrived, u, dt))


class Static(NamedTuple):
    """What the compiled program of a training depends on, besides shapes; it can be hashed."""

    rest: Rest
    constants: tuple[Any, ...]
    save: Save

    def filter(self, parameters: Sequence[Any]) -> Any:
        """The filter with these parameters."""
        given = iter(parameters)
        arrays = [next(given) if c is None else _array(*c) for c in self.constants]
        return together(arrays, self.rest)


class _Kept(eqx.Module):
    """What the derivative needs of the steps in C."""

    made: CompiledTraining = eqx.field(static=True)
    state: Any = eqx.field(static=True)  # its structure
    records: int = eqx.field(static=True)
    parameters: Any
    kept: Any
    measured: Any


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _steps(static: Static, required: bool, parameters: Any, state: Any, measured: Any) -> Any:
    return _in_jax(static, parameters, state, measured)


def _in_jax(static: Static, parameters: Any, state: Any, measured: Any) -> Any:
    z, arrived, u, dt = measured
    return scan(static.filter(parameters), state, z, u, dt, arrived, static.save)[1]


def _forward(static: Static, required: bool, parameters: Any, state: Any, measured: Any) -> Any:
    trained = tuple(p.perturbed for p in parameters)
    given = [p.perturbed for p in jax.tree.leaves(measured, is_leaf=_is_primal)]
    parameters, state, measured = jax.tree.map(
        lambda p: p.value, (parameters, state, measured), is_leaf=_is_primal
    )
    try:
        if any(given):
            raise NotInC("Training in C has no derivative by the measurements.")
        made = _compiled(static, _shapes(parameters, state, measured), trained)
    except NotInC as error:
        if required:
            raise InputError(str(error)) from None
        return jax.vjp(partial(_in_jax, static), parameters, state, measured)
    z, arrived, u, dt = measured
    T, _, B = z.shape
    more = -B % made.lanes

    def padded(a: Any) -> Any:
        return jnp.pad(a, [*((0, 0),) * (a.ndim - 1), (0, more)], mode="edge") if more else a

    u = jnp.zeros((T, 0, B), z.dtype) if u is None else u
    dt = jnp.broadcast_to(dt if dt.ndim == 2 else dt[:, None], (T, B))
    leaves, structure = jax.tree.flatten(state)
    rows = [part.packed(leaf) for part, leaf in zip(made.layout.carry, leaves, strict=True)]
    flat = jnp.concatenate([jnp.zeros(0, z.dtype), *(p.ravel() for p in parameters)])
    threads = jnp.zeros((made.threads, 0), z.dtype)
    measured = (*(padded(a) for a in (z, arrived, u, dt)), threads)
    saved, kept = made.forward(flat, padded(jnp.concatenate(rows)), measured)
    arrays = [saved[:, p.first : p.last, :B].reshape(T, *p.shape, B) for p in made.layout.saved]
    out = jax.tree.unflatten(made.layout.structure, arrays)
    return out, _Kept(made, structure, B, flat, kept, measured)


def _is_primal(a: Any) -> bool:
    return hasattr(a, "perturbed")


def _backward(static: Static, required: bool, kept: Any, bar: Any) -> Any:
    bar = jax.tree.map(_filled, bar, is_leaf=_is_symbolic_zero)
    if not isinstance(kept, _Kept):
        return kept(bar)
    made, B = kept.made, kept.records
    T, padded = kept.measured[3].shape
    rows = [b.reshape(T, -1, B) for b in jax.tree.leaves(bar)]
    saved_bar = jnp.concatenate(rows, axis=1)
    saved_bar = jnp.pad(saved_bar, ((0, 0), (0, 0), (0, padded - B)))
    flat, start = made.reverse(kept.parameters, kept.kept, kept.measured, saved_bar)
    parameters = tuple(p.unpacked(flat[p.first : p.last]) for p in made.layout.parameters)
    state = [p.unpacked(start[p.first : p.last, :B]) for p in made.layout.carry]
    return parameters, jax.tree.unflatten(kept.state, state), None


def _is_symbolic_zero(a: Any) -> bool:
    return isinstance(a, SymbolicZero)


def _filled(bar: Any) -> Any:
    return jnp.zeros(bar.shape, bar.dtype) if _is_symbolic_zero(bar) else bar


_steps.defvjp(_forward, _backward, symbolic_zeros=True)


def _shapes(parameters: Any, state: Any, measured: Any) -> Shapes:
    """The shapes for one record; refuses what has no C."""
    z, arrived, u, dt = measured

    def one(a: Any, skipped: int = 0) -> Any:
        if a.shape[-1:] != z.shape[-1:]:
            raise NotInC("Training in C needs a state of its own for each record.")
        return jax.ShapeDtypeStruct(a.shape[skipped:-1], a.dtype)

    if any(p.dtype != z.dtype for p in parameters):
        raise NotInC(f"Training in C knows parameters of type {z.dtype} only.")
    return Shapes(
        parameters=[jax.ShapeDtypeStruct(p.shape, p.dtype) for p in parameters],
        state=jax.tree.map(one, state),
        z=one(z, 1),
        arrived=one(arrived, 1),
        u=None if u is None else one(u, 1),
        dt=jax.ShapeDtypeStruct((), dt.dtype),
    )


def _compiled(static: Static, given: Shapes, trained: tuple[bool, ...]) -> CompiledTraining:
    """The compiled training; equal ones of a process share one."""
    leaves, structure = jax.tree.flatten(given)
    shapes = tuple((a.shape, str(a.dtype)) for a in leaves)
    try:
        return _cached(static, structure, shapes, trained, jax.config.read("jax_enable_x64"))
    except InputError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise NotInC(f"The training could not be built or loaded. {why}") from error


@lru_cache(maxsize=64)
def _cached(
    static: Static, structure: Any, shapes: Any, trained: tuple[bool, ...], wide: bool
) -> CompiledTraining:
    leaves = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    with jax.ensure_compile_time_eval():
        return CompiledTraining(static, jax.tree.unflatten(structure, leaves), trained)


def _name(path: Path) -> str:
    """The name of a library in XLA: that of its content."""
    return f"sagewing_{path.stem}"


@cache
def _known_to_xla(path: Path) -> ctypes.CDLL:
    """A library, whose functions XLA learns once."""
    library = ctypes.CDLL(str(path))
    for direction in ("forward", "reverse"):
        function = jax.ffi.pycapsule(library[f"sw_training_{direction}"])
        jax.ffi.register_ffi_target(f"{_name(path)}_{direction}", function, platform="cpu")
    return library


def _cores() -> int:
    """The number of threads."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _array(shape: tuple[int, ...], dtype: str, data: bytes) -> Any:
    return jnp.asarray(np.frombuffer(data, dtype).reshape(shape))
