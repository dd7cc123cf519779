"""A policy on disk: what its folder holds, what comes back, and what saving never does."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from policy_folders import (
    CARD,
    LAYERS,
    PROVENANCE,
    WEIGHTS,
    copied,
    identical,
    refuses,
    saved,
    small,
)

import sagewing as sw
from sagewing import files
from sagewing.policy import storage
from sagewing.policy.network import Network

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


def test_a_loaded_policy_is_the_saved_one_bit_for_bit(policy, good):
    loaded = sw.Policy.load(good)
    assert jax.tree.structure(loaded) == jax.tree.structure(policy)
    identical(loaded, policy)


def test_a_loaded_policy_gives_the_same_estimates(policy, good):
    z = np.random.default_rng(0).normal(size=(20, 2))
    results = [
        sw.run(
            sw.NDRSageHusa(sw.models.Lorenz(), [0.01] * 3, [1.0, 2.0], policy=p),
            np.ones(3),
            np.eye(3),
            z,
        )
        for p in (policy, sw.Policy.load(good))
    ]
    identical(*results)


def test_settings_survive(policy, good):
    loaded = sw.Policy.load(str(good))
    assert loaded.arch == policy.arch
    assert (loaded.bounds, loaded.gain_noise) == ((0.2, 50.0), "posterior")


@pytest.mark.parametrize("features", ["whitened-no-log", "nis"])
def test_another_feature_set_survives(features, tmp_path):
    arch = sw.Architecture(3, 2, features, depth=1, hidden=3, **LAYERS)
    sw.Policy(arch, key=jax.random.key(1)).save(tmp_path / "policy")
    assert sw.Policy.load(tmp_path / "policy").arch == arch


def test_provenance_is_in_the_json_file(good):
    card = json.loads((good / CARD).read_text())
    assert card["provenance"] == PROVENANCE
    assert storage.read_card(good)["provenance"] == PROVENANCE


def test_the_folder_holds_two_readable_files_and_nothing_else(good):
    assert sorted(p.name for p in good.iterdir()) == [CARD, WEIGHTS]
    assert [p.name for p in good.parent.iterdir()] == ["good"]


def test_an_existing_policy_stays_unless_overwriting_is_asked_for(policy, folder):
    before = (folder / WEIGHTS).read_bytes()
    other = jax.tree.map(lambda a: a + 1.0, policy)
    with refuses(folder):
        other.save(folder)
    assert (folder / WEIGHTS).read_bytes() == before
    other.save(folder, overwrite=True)
    identical(sw.Policy.load(folder), other)
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]
    assert sorted(p.name for p in folder.iterdir()) == [CARD, WEIGHTS]


def test_an_empty_folder_is_as_good_as_none(policy, tmp_path):
    (tmp_path / "new").mkdir()
    policy.save(tmp_path / "new")
    identical(sw.Policy.load(tmp_path / "new"), policy)


@pytest.mark.parametrize("overwrite", [False, True])
def test_saving_over_a_file_is_refused_and_leaves_it(policy, tmp_path, overwrite):
    (tmp_path / "notes").write_text("mine")
    with refuses(tmp_path / "notes"):
        policy.save(tmp_path / "notes", overwrite=overwrite)
    assert [p.name for p in tmp_path.iterdir()] == ["notes"]
    assert (tmp_path / "notes").read_text() == "mine"


def test_overwriting_never_deletes_what_is_not_a_policy(policy, tmp_path):
    thesis = tmp_path / "work" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.write_text("years")
    with refuses(thesis.parent):
        policy.save(thesis.parent, overwrite=True)
    assert thesis.read_text() == "years"


def test_a_save_that_was_killed_does_not_block_the_next(policy, folder):
    # What a kill between the two renames would leave.
    old = folder.with_name(f".{folder.name}.old")
    old.mkdir()
    (old / CARD).write_text("{}")
    policy.save(folder, overwrite=True)
    identical(sw.Policy.load(folder), policy)


def test_a_save_that_fails_leaves_the_old_policy_and_no_litter(policy, folder, monkeypatch):
    def full_disk(path, content):
        raise OSError("No space left on device")

    monkeypatch.setattr(files, "write_atomically", full_disk)
    with pytest.raises(OSError, match="No space"):
        policy.save(folder, overwrite=True)
    identical(sw.Policy.load(folder), policy)
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


def test_provenance_that_json_cannot_hold_is_refused_before_anything_is_written(policy, tmp_path):
    with pytest.raises(sw.InputError, match="provenance"):
        policy.save(tmp_path / "new", {"score": np.float32(1.0)})
    assert list(tmp_path.iterdir()) == []


def test_more_weights_than_are_read_are_not_written(policy, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "MOST_WEIGHTS", 10)
    with refuses(tmp_path / "new"):
        policy.save(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_policy_of_an_earlier_version_has_no_digest_and_loads(policy, folder):
    assert "sha256" not in json.loads((folder / CARD).read_text())
    identical(sw.Policy.load(folder), policy)


@pytest.mark.parametrize("name", sorted(p.name for p in storage.SHIPPED.iterdir()))
def test_every_shipped_policy_has_the_digests_of_its_files(name):
    place = storage.SHIPPED / name
    card = storage.read_card(place)
    assert card["version"] == 2
    assert card["sha256"]["weights"] == files.sha256((place / WEIGHTS).read_bytes())


@pytest.mark.parametrize("name", [WEIGHTS, CARD])
def test_a_link_to_a_file_is_read(policy, folder, name):
    (folder / name).rename(folder.parent / name)
    (folder / name).symlink_to(folder.parent / name)
    identical(sw.Policy.load(folder), policy)


@pytest.mark.parametrize("there", [True, False], ids=["to a policy", "dangling"])
@pytest.mark.parametrize("overwrite", [True, False])
def test_saving_over_a_symbolic_link_is_refused_and_leaves_all_as_it_was(
    policy, folder, there, overwrite
):
    link = folder.with_name("link")
    link.symlink_to(folder if there else folder.with_name("nowhere"))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with refuses(link):
        jax.tree.map(lambda a: a + 1.0, policy).save(link, overwrite=overwrite)
    assert link.is_symlink()
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert sorted(p.name for p in folder.parent.iterdir()) == ["link", folder.name]


@pytest.mark.parametrize("size", [1e6, 3e38])
@pytest.mark.parametrize("name", ["chaos", "universal"])
def test_no_weights_put_nan_into_what_a_filter_says(name, size):
    rng = np.random.default_rng(0)
    policy = jax.tree.map(
        lambda a: jnp.asarray(size * rng.choice([-1.0, 1.0], a.shape), a.dtype),
        sw.Policy.pretrained(name),
    )
    filt = sw.NDRSageHusa(sw.models.Lorenz(), [0.01] * 3, [1.0, 2.0], policy)
    made = sw.run(filt, np.ones(3), np.eye(3), 3.0 * rng.normal(size=(30, 2)))
    for field in ("x", "P", "q", "r", "d", "nis", "loglik"):
        assert np.all(np.isfinite(getattr(made, field))), field


@pytest.mark.parametrize("size", [1e6, 1e19, 3e38])
@pytest.mark.parametrize("name", ["kalmannet", "l-ekf", "enn-akf"])
def test_no_weights_put_nan_into_what_a_learned_baseline_says(name, size):
    rng = np.random.default_rng(0)
    network = jax.tree.map(
        lambda a: jnp.asarray(size * rng.choice([-1.0, 1.0], a.shape), a.dtype),
        Network.pretrained(f"chaos-{name}-paper"),
    )
    make = {"kalmannet": sw.KalmanNet, "l-ekf": sw.LEKF, "enn-akf": sw.ENNAKF}[name]
    filt = make(sw.models.Lorenz(), [0.01] * 3, [1.0, 2.0], network)
    made = sw.run(filt, np.ones(3), np.eye(3), 3.0 * rng.normal(size=(30, 2)))
    for field in ("x", "P", "q", "r", "d", "nis", "loglik"):
        assert np.all(np.isfinite(getattr(made, field))), field
