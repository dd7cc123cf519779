"""A small policy in a folder, for the tests of what such a folder holds and of what is refused."""

import json
import re

import jax
import numpy as np
import pytest

import sagewing as sw

WEIGHTS, CARD = "weights.safetensors", "policy.json"
# "raw" has as many features as the default "whitened": a file that forgets to say so must not load.
SETTINGS = {"features": "raw", "clip": 7.0, "depth": 2, "hidden": 5}
LAYERS = {"encoder": (4,), "context": (4,), "head": (4,), "decoder": (4,)}
PROVENANCE = {"trained on": "Lorenz", "seed": 3, "commit": "abc"}


def small():
    arch = sw.Architecture(3, 2, **SETTINGS, **LAYERS)
    return sw.Policy(arch, (0.2, 50.0), "posterior", key=jax.random.key(0))


def saved(policy, place):
    """The folder of a saved policy, to read and not to touch."""
    policy.save(place / "good", PROVENANCE)
    return place / "good"


def copied(good, place):
    """A copy of it to damage, without digests: these would be all that is ever found wrong."""
    copy = place / "policy"
    copy.mkdir()
    (copy / WEIGHTS).write_bytes((good / WEIGHTS).read_bytes())
    (copy / CARD).write_text(json.dumps(unsealed(good)))
    return copy


def unsealed(folder):
    """The card of a folder as versions without digests wrote it."""
    card = json.loads((folder / CARD).read_text())
    del card["sha256"]
    return card | {"version": 1}


def refuses(path):
    return pytest.raises(sw.InputError, match=re.escape(str(path)))


def identical(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
