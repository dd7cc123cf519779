"""The problems that have a name: three chaotic systems and a quadrotor, in two forms."""

from typing import Any

from sagewing.errors import InputError
from sagewing.problems import chaos
from sagewing.problems.flight import setup
from sagewing.problems.problem import Problem

QUADROTOR = "quadrotor"
# With 18 errors instead of 19 states.
ERROR_STATE = "quadrotor-error-state"
MODELS = (*chaos.SYSTEMS, QUADROTOR, ERROR_STATE)


def problem_named(name: str, training: dict[str, Any]) -> Problem:
    """The problem of this name; `training`, from a card, describes the quadrotor."""
    if name in chaos.SYSTEMS:
        return chaos.problem(name)
    if name == QUADROTOR:
        return setup.problem(training)
    if name == ERROR_STATE:
        return setup.problem({**training, "attitude": "error-state"})
    raise InputError(
        f"There is no model {name!r}; known: {', '.join(MODELS)}, or FILE.py:NAME for your own."
    )


def trained_on(training: dict[str, Any]) -> str:
    """The built-in problem that a card names; a model in a user's file is never imported."""
    domain = training.get("domain")
    model = QUADROTOR if domain == "flight" else domain
    if model not in MODELS:
        raise InputError(
            f"policy.json names no model of sagewing: its provenance.training.domain is {domain!r}."
            f" Name the model with --model: {', '.join(MODELS)}, or FILE.py:NAME for your own."
        )
    return model
