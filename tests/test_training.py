"""Training learns, survives a kill bit for bit, and is not poisoned by a bad gradient."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import sagewing as sw
from sagewing.train import Schedule, train
from sagewing.train.chaos import ChaosTraining, train_chaos

TINY = sw.Architecture(3, 2, depth=1, hidden=4, encoder=(4,), context=(4,), head=(4,), decoder=(4,))


class Point(eqx.Module):
    """The smallest thing that can be trained."""

    w: jax.Array


def make_point(key):
    return Point(jax.random.normal(key, (3,)))


def distance(point, key):
    return jnp.sum((point.w - 2.0) ** 2) + 0.01 * jax.random.normal(key)


def test_training_the_filter_lowers_its_loss():
    setup = ChaosTraining(
        architecture=TINY, schedule=Schedule(epochs=80, learning_rate=1e-2), steps=20
    )
    trained = train_chaos(setup, [0])
    losses = np.asarray(trained.losses)[0]
    assert np.all(np.isfinite(losses))
    assert losses[-10:].mean() < 0.8 * losses[:10].mean()
    assert int(trained.skipped[0]) == 0


@pytest.mark.parametrize("name", ["enn-akf", "l-ekf", "kalmannet", "ekf-tuned"])
def test_every_learned_filter_trains_and_comes_back_from_its_folder(name, tmp_path):
    setup = ChaosTraining(
        filter=name,
        protocol="paper",
        schedule=Schedule(epochs=60, learning_rate=1e-2),
        steps=20,
        batch=32,
    )
    trained = train_chaos(setup, [0])
    losses = np.asarray(trained.losses)[0]
    assert np.all(np.isfinite(losses))
    assert losses[-10:].mean() < 0.95 * losses[:10].mean()
    learned = trained.models[0]
    learned.save(tmp_path / "p", {"seed": 0})
    again = type(learned).load(tmp_path / "p")
    assert jax.tree.all(jax.tree.map(lambda a, b: bool(np.all(a == b)), learned, again))
    with pytest.raises(sw.InputError, match=r'Policy\.load reads "ndr"'):
        sw.Policy.load(tmp_path / "p")


def test_seeds_in_one_program_give_what_each_gives_alone():
    """To the bit, where the program has the same room for seeds."""
    schedule = Schedule(epochs=50)
    together = train(make_point, distance, schedule, [3, 4], width=3)
    for i, seed in enumerate([3, 4]):
        alone = train(make_point, distance, schedule, [seed], width=3)
        np.testing.assert_array_equal(together.models[i].w, alone.models[0].w)
        np.testing.assert_array_equal(together.losses[i], alone.losses[0])
    assert together.losses.shape == (2, 50)
    assert not np.allclose(together.models[0].w, together.models[1].w)


def test_a_gradient_that_is_not_finite_is_skipped_and_counted():
    """The loss is NaN in a good part of the epochs: the weights still arrive where they should."""

    def sometimes_nan(point, key):
        bad = jax.random.bernoulli(key, 0.3)
        return distance(point, key) * jnp.where(bad, jnp.nan, 1.0)

    schedule = Schedule(epochs=2000, learning_rate=1e-2, clip_norm=10.0)
    trained = train(make_point, sometimes_nan, schedule, [0])
    assert 400 < int(trained.skipped[0]) < 800
    assert int(np.isnan(trained.losses).sum()) == int(trained.skipped[0])
    np.testing.assert_allclose(trained.models[0].w, 2.0, atol=0.05)


def test_a_checkpoint_after_a_bad_epoch_can_be_read(tmp_path):
    def always_nan(point, key):
        return jnp.nan * jnp.sum(point.w)

    schedule = Schedule(epochs=3)
    first = train(make_point, always_nan, schedule, [0], folder=tmp_path / "t")
    again = train(make_point, always_nan, schedule, [0], folder=tmp_path / "t", resume=True)
    np.testing.assert_array_equal(first.models[0].w, again.models[0].w)
    assert int(again.skipped[0]) == 3


def test_a_training_is_neither_overwritten_nor_continued_with_other_settings(tmp_path):
    def go(folder=tmp_path / "t", epochs=2, **more):
        schedule = Schedule(epochs=epochs)
        settings = {"epochs": epochs}
        return train(make_point, distance, schedule, [0], folder=folder, settings=settings, **more)

    go()
    with pytest.raises(sw.InputError, match=r"already holds a training: add --resume"):
        go()
    with pytest.raises(sw.InputError, match=r"started with epochs = 2, not 3"):
        go(epochs=3, resume=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(sw.InputError, match=r"not empty"):
        go(folder=tmp_path / "mine")
    (tmp_path / "t" / "checkpoint.safetensors").write_bytes(b"short")
    with pytest.raises(sw.InputError, match=r"checkpoint\.safetensors is not a readable"):
        go(resume=True)


IMPATIENT = """
import sys
from sagewing.cli.main import main
from sagewing.train import loop
loop.SECONDS_BETWEEN_CHECKPOINTS = 0.0
loop.SECONDS_BETWEEN_REPORTS = 0.05
main(sys.argv[1:])
"""


def _command(folder: Path, *more: str) -> list[str]:
    sizes = ["--depth", "1", "--epochs", "400", "--batch", "4", "--steps", "6", "--seeds", "2"]
    return ["train", "chaos", "--out", str(folder), *sizes, *more]


def _epoch(folder: Path) -> int:
    path = folder / "checkpoint.safetensors"
    return int(load_file(path)["epoch"]) if path.exists() else -1


def test_a_killed_training_resumes_bit_for_bit(tmp_path):
    """kill -9 in the middle, --resume, and every byte of the weights is that of a quiet run."""
    killed, quiet = tmp_path / "killed", tmp_path / "quiet"
    cached = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}
    process = subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, *_command(killed)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=cached,
    )
    deadline = time.monotonic() + 120.0
    while not 0 < _epoch(killed) < 400:
        assert process.poll() is None, "the training ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 0 < _epoch(killed) < 400
    for folder, more in ((killed, ["--resume"]), (quiet, [])):
        command = [sys.executable, "-m", "sagewing", *_command(folder, *more)]
        subprocess.run(command, check=True, capture_output=True, env=cached)
    for seed in (0, 1):
        name = f"seed-{seed}/weights.safetensors"
        assert (killed / name).read_bytes() == (quiet / name).read_bytes()
    rows = [json.loads((f / "result.json").read_text())["rows"] for f in (killed, quiet)]
    assert rows[0] == rows[1]
    assert sw.Policy.load(killed / "seed-1").arch.depth == 1
