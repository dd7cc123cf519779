"""A policy on disk that is damaged, foreign or hostile: what is refused, and what is never done."""

import json
import os
import pickle
import re
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bounds import bounded
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_folders import (
    CARD,
    LAYERS,
    WEIGHTS,
    copied,
    refuses,
    saved,
    small,
    unsealed,
)
from safetensors.numpy import load, save

import sagewing as sw
from sagewing.policy import storage

pytestmark = pytest.mark.usefixtures("as_a_user_runs_it")


@pytest.fixture(scope="module")
def policy():
    return small()


@pytest.fixture(scope="module")
def good(policy, tmp_path_factory):
    return saved(policy, tmp_path_factory.mktemp("policies"))


@pytest.fixture
def folder(good, tmp_path):
    return copied(good, tmp_path)


def test_there_must_be_a_folder(tmp_path):
    with refuses(tmp_path / "nowhere"):
        sw.Policy.load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with refuses(tmp_path / "file"):
        sw.Policy.load(tmp_path / "file")


@pytest.mark.parametrize("name", [WEIGHTS, CARD])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: b"", id="empty"),
        pytest.param(lambda content: content[:1], id="1 byte"),
        pytest.param(lambda content: content[:7], id="7 bytes"),
        pytest.param(lambda content: content[:8], id="8 bytes"),
        pytest.param(lambda content: content[:100], id="100 bytes"),
        pytest.param(lambda content: content[: len(content) // 2], id="half"),
        pytest.param(lambda content: content[:-2], id="2 bytes short"),
        pytest.param(lambda content: content + b"x", id="1 byte long"),
        pytest.param(lambda content: np.random.default_rng(0).bytes(len(content)), id="random"),
        pytest.param(lambda content: bytes(len(content)), id="zeros"),
        pytest.param(lambda content: b"\xff" * len(content), id="ones"),
        pytest.param(lambda content: b"[1, 2, 3]", id="array"),
        pytest.param(lambda content: b"null", id="null"),
        pytest.param(lambda content: b"{}", id="nothing in it"),
        pytest.param(lambda content: b"[" * 100_000, id="deep"),
        pytest.param(lambda content: pickle.dumps({"encoder": [1.0]}), id="pickle"),
    ],
)
def test_a_damaged_file_is_named(folder, name, damage):
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    with refuses(folder / name):
        sw.Policy.load(folder)


@pytest.mark.parametrize("name", [WEIGHTS, CARD])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with refuses(folder / name):
        sw.Policy.load(folder)
    (folder / name).mkdir()
    with refuses(folder / name):
        sw.Policy.load(folder)


def test_json_is_no_safetensors(folder):
    (folder / WEIGHTS).write_bytes((folder / CARD).read_bytes())
    with refuses(folder / WEIGHTS):
        sw.Policy.load(folder)


FIRST = "encoder.layers.0.W"


@pytest.mark.parametrize(
    ("change", "about"),
    [
        (lambda w: w.pop(FIRST), FIRST),
        (lambda w: w.update(extra=np.zeros(1, np.float32)), "extra"),
        (lambda w: w.update({FIRST: w[FIRST].T.copy()}), FIRST),
        (lambda w: w.update({FIRST: w[FIRST][..., None]}), FIRST),
        (lambda w: w.update({FIRST: w[FIRST] * np.nan}), FIRST),
        (lambda w: w.update({FIRST: w[FIRST] + np.inf}), FIRST),
        (lambda w: w.update({FIRST: np.full(w[FIRST].shape, 1e300)}), FIRST),
        (lambda w: w.update({FIRST: np.full_like(w[FIRST], 3e38)}), FIRST),
        (lambda w: w.update({FIRST: w[FIRST].astype(np.complex64)}), FIRST),
        (lambda w: w.update({FIRST: w[FIRST].astype(np.int32)}), FIRST),
        (lambda w: w.update({FIRST: w[FIRST] > 0}), FIRST),
    ],
    ids=[
        "missing",
        "extra",
        "transposed",
        "3-d",
        "NaN",
        "inf",
        "huge",
        "3e38",
        "complex",
        "int",
        "bool",
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(folder, change, about):
    weights = load((folder / WEIGHTS).read_bytes())
    change(weights)
    (folder / WEIGHTS).write_bytes(save(weights))
    with pytest.raises(sw.InputError, match=f"{re.escape(str(folder / WEIGHTS))}.*{about}"):
        sw.Policy.load(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", "another-policy"),
        ("format", None),
        ("version", 3),
        ("version", "1"),
        ("version", True),
        ("kind", []),
        ("kind", {}),
        ("kind", None),
        ("kind", "lambda"),
        ("provenance", []),
        ("architecture", []),
        ("architecture", None),
        ("architecture", {}),
        ("filter", None),
        ("filter", [0.1, 100.0]),
        ("normalisation", 7.0),
    ],
)
def test_a_foreign_or_incomplete_description_is_refused(folder, key, value):
    card = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps(card | {key: value}))
    with refuses(folder / CARD):
        sw.Policy.load(folder)


WRONG_SIZES = [0, -1, 2.0, True, "3", None, [3], {}, 10**9, 10**400]


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        *(
            ("architecture", key, v)
            for key in ("n_x", "n_z", "depth", "hidden")
            for v in WRONG_SIZES
        ),
        *(
            ("architecture", key, v)
            for key in ("encoder", "head")
            for v in (
                [],
                [0],
                [-4],
                [4.0],
                [True],
                ["4"],
                [[4]],
                4,
                None,
                "4",
                {},
                [10**9],
                [4] * 999,
            )
        ),
        *(("architecture", "features", v) for v in ("psychic", 3, None, [], {}, ["raw"], True)),
        ("architecture", "colour", 3),
        *(("normalisation", "clip", v) for v in (0.0, -1.0, "7", None, True, [7.0], 10**400)),
        *(("normalisation", "clip", v) for v in (float("nan"), float("inf"))),
        *(
            ("filter", "bounds", v)
            for v in (
                [0.1],
                [0.1, 1.0, 100.0],
                [100.0, 0.1],
                [-1.0, 100.0],
                [0.1, float("nan")],
                [0.1, float("inf")],
                [0.1, 10**400],
                ["0.1", "100"],
                [False, True],
                "19",
                None,
                0.1,
                {"0": 1, "2": 3},
            )
        ),
        *(("filter", "gain_noise", v) for v in ("later", None, True, [], {})),
    ],
    ids=lambda part: repr(part)[:30],
)
def test_an_absurd_setting_is_refused(folder, section, key, value):
    card = json.loads((folder / CARD).read_text())
    card[section][key] = value
    (folder / CARD).write_text(json.dumps(card))
    with refuses(folder / CARD):
        sw.Policy.load(folder)


@pytest.mark.parametrize(
    ("section", "key"),
    [
        *((None, key) for key in ("format", "version", "architecture", "filter", "normalisation")),
        *(("architecture", key) for key in ("n_x", "n_z", "features", "depth", "hidden")),
        *(("architecture", key) for key in LAYERS),
        ("normalisation", "clip"),
        ("filter", "bounds"),
        ("filter", "gain_noise"),
    ],
)
def test_a_missing_setting_is_not_guessed(folder, section, key):
    card = json.loads((folder / CARD).read_text())
    del (card if section is None else card[section])[key]
    (folder / CARD).write_text(json.dumps(card))
    with refuses(folder / CARD):
        sw.Policy.load(folder)


def test_more_weights_than_any_policy_has_are_not_read_into_memory(folder):
    """A file of gigabytes may take no room on a disk: it is a hole."""
    card = json.loads((folder / CARD).read_text())
    card["architecture"] |= {"n_x": 4096, "n_z": 4096, "hidden": 4096, "depth": 64}
    (folder / CARD).write_text(json.dumps(card))
    os.truncate(folder / WEIGHTS, 2 << 30)
    with bounded(), refuses(folder / CARD):
        sw.Policy.load(folder)


class Bomb:
    """Unpickling it would create a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (Path.touch, (Path(self.path),))


@pytest.mark.parametrize("name", [WEIGHTS, CARD])
@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_a_pickle_is_never_executed(folder, name, protocol):
    trap = folder.parent / "executed"
    (folder / name).write_bytes(pickle.dumps(Bomb(trap), protocol))
    with refuses(folder / name):
        sw.Policy.load(folder)
    assert not trap.exists()
    pickle.loads((folder / name).read_bytes())  # it was a live one
    assert trap.exists()


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """One folder that the fuzzing writes again and again."""
    return tmp_path_factory.mktemp("fuzz")


@settings(deadline=None, derandomize=True, database=None, max_examples=150)
@given(
    name=st.sampled_from([WEIGHTS, CARD]),
    flips=st.lists(
        st.tuples(st.floats(0.0, 1.0, exclude_max=True), st.integers(1, 255)),
        min_size=1,
        max_size=6,
    ),
    header=st.booleans(),
)
def test_flipped_bytes_load_or_are_refused(good, bench, name, flips, header):
    (bench / WEIGHTS).write_bytes((good / WEIGHTS).read_bytes())
    (bench / CARD).write_text(json.dumps(unsealed(good)))
    content = bytearray((bench / name).read_bytes())
    # Most of a weights file is numbers; its first bytes are where the structure is.
    size = min(len(content), 1600) if header else len(content)
    for where, change in flips:
        content[int(where * size)] ^= change
    (bench / name).write_bytes(content)
    try:
        loaded = sw.Policy.load(bench)
    except sw.InputError as error:
        loaded, refusal = None, str(error)
    if loaded is None:
        assert str(bench) in refusal
    else:
        assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(loaded))


def test_one_flipped_bit_anywhere_in_a_saved_policy_is_refused(good, bench):
    rng = np.random.default_rng(0)
    for name, other in ((WEIGHTS, CARD), (CARD, WEIGHTS)):
        (bench / other).write_bytes((good / other).read_bytes())
        content = (good / name).read_bytes()
        meaning = (good / CARD).read_text() if name == CARD else None
        for where in rng.integers(0, len(content), 150):
            flipped = bytearray(content)
            flipped[where] ^= 1 << int(rng.integers(8))
            if meaning is not None and _same_json(bytes(flipped), meaning):
                continue  # a space that became a tab
            (bench / name).write_bytes(flipped)
            with refuses(bench / name):
                sw.Policy.load(bench)


def _same_json(content, text):
    try:
        return json.loads(content) == json.loads(text)
    except ValueError:
        return False


def test_the_weights_of_another_policy_are_refused(policy, good, tmp_path):
    jax.tree.map(lambda a: a + 1.0, policy).save(tmp_path / "policy")
    (tmp_path / "policy" / WEIGHTS).write_bytes((good / WEIGHTS).read_bytes())
    with pytest.raises(sw.InputError, match="SHA-256"):
        sw.Policy.load(tmp_path / "policy")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seal", [None, [], {}, "0" * 64, {"weights": "0" * 64, "card": "0" * 64}])
def test_a_digest_that_is_there_must_match(folder, version, seal):
    card = json.loads((folder / CARD).read_text()) | {"version": version, "sha256": seal}
    (folder / CARD).write_text(json.dumps(card))
    with refuses(folder / CARD):
        sw.Policy.load(folder)


def test_a_shipped_policy_without_digests_is_refused(folder, monkeypatch):
    monkeypatch.setattr(storage, "SHIPPED", folder.parent)
    with refuses(folder / CARD):
        sw.Policy.pretrained(folder.name)


@pytest.mark.parametrize("name", [WEIGHTS, CARD])
@pytest.mark.parametrize("what", ["pipe", "link to a pipe", "link to a device"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(folder, name, what):
    (folder / name).unlink()
    pipe = folder.parent / "pipe"
    os.mkfifo(pipe)
    if what == "pipe":
        pipe.rename(folder / name)
    else:
        (folder / name).symlink_to(pipe if what == "link to a pipe" else "/dev/zero")
    with pytest.raises(sw.InputError, match=f"{re.escape(str(folder / name))} is not a regular"):
        sw.Policy.load(folder)


def test_a_file_far_larger_than_its_policy_is_not_read_into_memory(folder):
    with (folder / WEIGHTS).open("r+b") as file:
        file.truncate(1 << 42)
    with refuses(folder / WEIGHTS):
        sw.Policy.load(folder)


def test_a_card_with_a_hundred_thousand_layers_is_refused_at_once(folder):
    sw.Universal(bank=2, hidden=(3,), key=jax.random.key(0)).save(folder, overwrite=True)
    card = unsealed(folder)
    card["architecture"]["hidden"] = [3] * 100_000
    (folder / CARD).write_text(json.dumps(card))
    began = time.monotonic()
    with refuses(folder / CARD) as error:
        sw.Policy.load(folder)
    assert time.monotonic() - began < 2.0
    assert len(str(error.value)) < 1000
