"""The errors for filters that cannot become C."""

from sagewing.errors import InputError


class NotInC(InputError):
    """This filter has no C, or this machine cannot compile it; it still runs with JAX."""


class Unsupported(NotInC):
    """An operation of the user's model that has no C code, with the line that asks for it."""

    def __init__(self, operation: str, why: str, line: str | None = None):
        super().__init__(operation, why)
        self.operation, self.why, self.line = operation, why, line

    def __str__(self) -> str:
        return (
            f"The operation {self.operation!r} {self.why}; it comes from "
            f"{self.line or 'a line that JAX did not record'}. Write it with other operations, or "
            'run this filter with backend="jax".'
        )
