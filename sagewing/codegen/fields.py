"""The members of the C structs and the arguments of the C functions, with what is known of them."""

from typing import Any, NamedTuple, get_type_hints

import jax
import numpy as np

from sagewing.codegen.operations import Kind
from sagewing.codegen.refusal import NotInC
from sagewing.codegen.types import INTEGERS
from sagewing.shapes import Covariances


class Field(NamedTuple):
    """A member of a C struct; of a `symmetric` one the upper half repeats the lower one.

    Of the last axis the first `used` entries have a meaning, if that is given.
    """

    name: str
    shape: tuple[int, ...]
    kind: Kind
    symmetric: bool = False
    used: int | None = None

    @property
    def size(self) -> int:
        """The number of entries."""
        return int(np.prod(self.shape))


class Argument(NamedTuple):
    """An argument of a C function, or the member of the state that `field` is.

    A single number is no array in C. A symmetric matrix is read in its lower half. `finite` and
    `not_negative` are what the function may rely on. With `members` it is that of one of so many
    members of a bank, and all of theirs lie side by side: entry i of member m is at
    i * members + m. One that is `shared` is the same for all records.
    """

    name: str
    is_number: bool = False
    symmetric: bool = False
    finite: bool = False
    not_negative: bool = False
    field: Field | None = None
    members: int = 0
    shared: bool = False


def of_state(field: Field) -> Argument:
    """A member of the state as it is before a step, which never keeps what is not finite."""
    return Argument(f"s->{field.name}", symmetric=field.symmetric, finite=True, field=field)


def fields(tree: Any, real: np.dtype) -> list[Field]:
    """A member for each array; a covariance is what its type declares as `shapes.Covariances`."""
    return [
        Field(
            "_".join(_name(key) for key in path),
            leaf.shape,
            kind_of(leaf.dtype, real),
            _is_covariance(tree, path),
        )
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


def kind_of(dtype: Any, real: np.dtype) -> Kind:
    """The kind of a member; integers are `int` also in double precision."""
    kinds: dict[Any, Kind] = {real: "real", np.bool_: "bool", **dict.fromkeys(INTEGERS, "int")}
    for known, kind in kinds.items():
        if dtype == known:
            return kind
    types = f"bool, int32 and {real}"
    raise NotInC(f"A filter's state cannot hold numbers of type {dtype} in C: use {types} in init.")


def _name(key: Any) -> str:
    match key:
        case jax.tree_util.GetAttrKey():
            return key.name
        case jax.tree_util.SequenceKey():
            return str(key.idx)
        case jax.tree_util.DictKey() | jax.tree_util.FlattenedIndexKey():
            return str(key.key)
    return str(key)


def _is_covariance(tree: Any, path: tuple[Any, ...]) -> bool:
    """Whether the class that holds an array declares it as a covariance."""
    if not path or not isinstance(path[-1], jax.tree_util.GetAttrKey):
        return False
    owner = tree
    for key in path[:-1]:
        match key:
            case jax.tree_util.GetAttrKey():
                owner = getattr(owner, key.name)
            case jax.tree_util.SequenceKey():
                owner = owner[key.idx]
            case jax.tree_util.DictKey():
                owner = owner[key.key]
            case _:
                return False
    try:
        declared = get_type_hints(type(owner))
    except NameError:  # a type that is imported for the type checker only
        return False
    return declared.get(path[-1].name) is Covariances
