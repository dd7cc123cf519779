"""Arrays of constants in C."""

import numpy as np

from sagewing.codegen.graph import Node


class Tables:
    """The arrays of constants of a program, each once."""

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype
        self._names: dict[tuple[tuple[int, ...], bytes, bool], str] = {}
        self.arrays: dict[str, np.ndarray] = {}

    def name(self, table: Node, columns: bool = False) -> str:
        """The C name of a table; `columns` lays a matrix out column by column."""
        shape, data = table.attr
        key = (shape, data, columns)
        if key not in self._names:
            array = np.frombuffer(data, self.dtype).reshape(shape)
            name = self._names[key] = f"sw_table{len(self._names)}"
            self.arrays[name] = array.T if columns else array
        return self._names[key]

    def text(self) -> str:
        """Their definitions in C, with constants as `notation.py` writes them."""
        return "".join(definition(name, array) for name, array in self.arrays.items())


def definition(name: str, array: np.ndarray) -> str:
    """An array of constants."""
    numbers = [f"«{float(number)!r}»" for number in array.ravel()]
    text = [f"\nstatic const sw_real {name}[{array.size}] = {{\n"]
    text += [f"    {', '.join(numbers[i : i + 4])},\n" for i in range(0, len(numbers), 4)]
    return "".join([*text, "};\n"])
