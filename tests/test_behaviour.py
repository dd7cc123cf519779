"""Shipped policies estimate what they did when `behaviour.json` was written."""

import json

import numpy as np
import pytest
from behaviour import CLOSE, FILE, behaviour, names

WRITTEN = json.loads(FILE.read_text())


@pytest.mark.parametrize("name", names())
def test_a_shipped_policy_behaves_as_written(name):
    found = behaviour(name)
    assert found.keys() == WRITTEN[name].keys()
    for what, expected in WRITTEN[name].items():
        np.testing.assert_allclose(found[what], expected, rtol=CLOSE, atol=1e-9, err_msg=what)


def test_nothing_is_written_of_policies_that_do_not_ship():
    assert list(WRITTEN) == names()
