"""The universal policy: what makes no difference to it, and that it is a policy like any other."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from scipy.stats import norm

import sagewing as sw
from sagewing.bench import universal as bench
from sagewing.cli.main import main
from sagewing.filters.rules import Around, Attenuation, Learned, Seen
from sagewing.policy import doubt as doubts
from sagewing.policy.universal import bend
from sagewing.sim import family, unseen
from sagewing.sim.family_model import BEARING, FamilyModel, unpacked
from sagewing.train.losses import state_loss
from sagewing.train.universal import Errors, Running, teaches

pytestmark = pytest.mark.usefixtures("float64")
STEPS, DT = 60, 0.1
ORDER_X, ORDER_Z = np.array([2, 0, 3, 1]), np.array([1, 0])


@pytest.fixture(scope="module")
def policy(float64):
    """The shipped one."""
    return sw.Universal.pretrained("universal")


class Mixed(sw.Model):
    """x+ = A x, z = H x, as any order, scale or sign of states and channels makes it."""

    A: jax.Array
    H: jax.Array

    def transition(self, x, u, dt):
        return self.A @ x

    def observe(self, x, u):
        return self.H @ x


def system():
    rng = np.random.default_rng(0)
    A = 0.9 * np.linalg.qr(rng.normal(size=(4, 4)))[0]
    return A, rng.normal(size=(2, 4)), np.array([0.1, 0.2, 0.05, 0.3]), np.array([1.0, 0.5])


def record(A, H, q, r):
    rng = np.random.default_rng(1)
    x, z = np.zeros(4), []
    for _ in range(STEPS):
        x = A @ x + 2.0 * np.sqrt(q) * rng.normal(size=4)
        z.append(H @ x + 2.0 * np.sqrt(r) * rng.normal(size=2))
    z = np.array(z)
    z[::9] *= 6.0  # some of them are outliers
    z[rng.random(z.shape) < 0.1] = np.nan
    return z


def estimates(policy, A, H, q, r, z):
    filt = sw.NDRSageHusa(Mixed(jnp.asarray(A), jnp.asarray(H)), q, r, policy)
    return sw.run(filt, np.zeros(len(q)), np.diag(10.0 * q), z, dt=DT)


@pytest.fixture(scope="module")
def plain(policy):
    A, H, q, r = system()
    z = record(A, H, q, r)
    return A, H, q, r, z, estimates(policy, A, H, q, r, z)


def test_it_adapts(plain):
    *_, q, r, _, made = plain
    assert np.ptp(np.log(made.q / q), axis=0).min() > 0.1
    assert np.ptp(np.log(made.r / r), axis=0).min() > 0.1


def test_the_order_of_states_and_channels_makes_no_difference(policy, plain):
    A, H, q, r, z, made = plain
    x, zz = ORDER_X, ORDER_Z
    other = estimates(policy, A[np.ix_(x, x)], H[np.ix_(zz, x)], q[x], r[zz], z[:, zz])
    np.testing.assert_allclose(other.x, made.x[:, x], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.q, made.q[:, x], rtol=1e-6)
    np.testing.assert_allclose(other.r, made.r[:, zz], rtol=1e-6)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_units_and_signs_make_no_difference(policy, plain, sign):
    A, H, q, r, z, made = plain
    s, t = np.array([1e-3, sign * 5.0, 1e2, 1.0]), np.array([sign * 30.0, 0.01])
    other = estimates(policy, s[:, None] * A / s, t[:, None] * H / s, s**2 * q, t**2 * r, t * z)
    np.testing.assert_allclose(other.x / s, made.x, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(other.q / s**2, made.q, rtol=1e-5)
    np.testing.assert_allclose(other.r / t**2, made.r, rtol=1e-5)


@pytest.mark.parametrize("axes", [1, 3])
def test_any_size_will_do_and_a_batch_is_its_records(policy, axes):
    z = np.random.default_rng(2).normal(size=(2, 10, axes))
    q = np.repeat([0.0, 0.1], axes)  # a state without noise of its own has none
    filt = sw.NDRSageHusa(sw.models.ConstantVelocity(axes=axes), q, np.ones(axes), policy)
    made = sw.run(filt, np.zeros(2 * axes), np.eye(2 * axes), z, dt=DT)
    assert bool(jnp.all(made.ok))
    assert np.all(np.isfinite(made.x))
    assert np.all(made.q[..., :axes] <= 1e-9)
    alone = sw.run(filt, np.zeros(2 * axes), np.eye(2 * axes), z[1], dt=DT)
    np.testing.assert_allclose(alone.x, made.x[1], rtol=1e-7, atol=1e-9)


def test_before_training_it_is_the_nominal_filter(plain):
    A, H, q, r, z, _ = plain
    z = np.where(np.arange(STEPS)[:, None] % 9, z, np.nan)  # without the outliers
    model = Mixed(jnp.asarray(A), jnp.asarray(H))
    start = (np.zeros(4), np.diag(10.0 * q), z)
    ekf = sw.run(sw.EKF(model, q, r), *start, dt=DT).x
    new = sw.run(sw.NDRSageHusa(model, q, r, sw.Universal(key=jax.random.key(0))), *start, dt=DT).x
    assert np.sqrt(np.mean((new - ekf) ** 2)) < 0.15 * np.sqrt(np.mean(np.asarray(ekf) ** 2))


def test_what_does_not_arrive_leaves_noise_and_memory_alone(policy, plain):
    A, H, q, r, z, _ = plain
    filt = sw.NDRSageHusa(Mixed(jnp.asarray(A), jnp.asarray(H)), q, r, policy)
    start = (np.zeros(4), np.diag(10.0 * q))
    before = sw.run(filt, *start, z, dt=DT).state
    gap = np.concatenate([z, np.full((7, 2), np.nan)])
    after = sw.run(filt, *start, gap, dt=DT).state
    kept, now = ((s.q, s.r, s.memory._replace(sway=None)) for s in (before, after))
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, kept, now)))
    assert not np.array_equal(before.x, after.x)


def test_a_switch_of_sensors_starts_the_memory_of_channels_anew(policy):
    point = sw.models.ConstantVelocity(axes=1)
    model = sw.models.Switched((point, point), inputs=((0, 0), (0, 0)))
    filt = sw.NDRSageHusa(model, [0.1, 0.1], [[1.0], [4.0]], policy)
    z = np.random.default_rng(3).normal(size=(12, 1))
    modes = (np.arange(12) >= 10).astype(float)[:, None]
    of_r, of_q, *_ = sw.run(filt, np.zeros(2), np.eye(2), z, modes, dt=DT).state.memory
    assert of_r.times.tolist() == [2.0]
    assert of_q.times.tolist() == [12.0]


def test_the_sway_is_what_a_larger_gain_would_have_changed():
    """Against x of filters whose gains are all a little larger, and a little smaller."""
    A, H, q, r = system()
    z = np.random.default_rng(5).normal(size=(30, 2))
    K, eps = 0.3 * np.linalg.pinv(H), 1e-4

    def estimates(scale):
        x = np.zeros(4)
        for row in z:
            x = A @ x
            nu = row - H @ x
            x = x + scale * K @ nu
            yield x, nu

    policy = sw.Universal(key=jax.random.key(0))
    memory = policy.init(jnp.asarray(q), jnp.asarray(r))
    S = 1e4 * np.eye(2)  # much more than r: the gain is K whatever the policy says of r
    wide = jnp.full(4, 1e6)
    around = Around(*map(jnp.asarray, (A, H, wide, wide, q, r)), None, wide, lambda off: A @ off)
    for _, nu in estimates(1.0):
        seen = map(jnp.asarray, (nu, nu, S, np.sqrt(S), K, q, r, np.ones(2, bool)))
        memory = policy(memory, Seen(*seen, around))[1]
    more, less = (list(estimates(scale))[-1][0] for scale in (1.0 + eps, 1.0 - eps))
    np.testing.assert_allclose(memory.sway, (more - less) / (2.0 * eps), rtol=1e-3)


PROOF = 10.5


def nominal_record(A, H, q, r, runs, steps, times_q=1.0, times_r=1.0):
    """Starts and measurements of a linear system whose noise is so many times the nominal."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(runs, len(q))) * np.sqrt(10.0 * q)
    z = np.empty((runs, steps, len(r)))
    for k in range(steps):
        x = x @ A.T + np.sqrt(times_q * q) * rng.normal(size=x.shape)
        z[:, k] = x @ H.T + np.sqrt(times_r * r) * rng.normal(size=(runs, len(r)))
    return z


def ever_proven(z, A, H, q, r, policy):
    """The step from which on each record's noise is adapted; as many as there are where never."""
    filt = sw.NDRSageHusa(Mixed(jnp.asarray(A), jnp.asarray(H)), q, r, policy)
    made = sw.run(filt, np.zeros(len(q)), np.diag(10.0 * q), z, dt=DT)
    acts = np.any(np.asarray(made.d) > 0.0, axis=-1)
    return made, np.where(acts.any(axis=1), acts.argmax(axis=1), z.shape[1])


def test_until_something_is_proven_wrong_it_is_the_nominal_EKF(policy):
    A, H, q, r = system()
    z = nominal_record(A, H, q, r, runs=200, steps=300)
    made, since = ever_proven(z, A, H, q, r, policy)
    assert policy.proof == PROOF
    assert np.mean(since < 300) < 0.08
    calm = since == 300
    model = Mixed(jnp.asarray(A), jnp.asarray(H))
    ekf = sw.run(sw.EKF(model, q, r), np.zeros(4), np.diag(10.0 * q), z, dt=DT)
    np.testing.assert_allclose(made.x[calm], ekf.x[calm], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(made.P[calm], ekf.P[calm], rtol=1e-9, atol=1e-12)


def test_many_channels_prove_no_more_where_nothing_is_wrong():
    rng, doubt = np.random.default_rng(8), doubts.none_yet(jnp.ones((12, 2000)))
    arrived = jnp.ones((12, 2000), bool)
    more = jax.jit(lambda doubt, w: doubts.weighed(doubt, PROOF, w, 0.0 * w, w**2, arrived))
    for _ in range(300):
        doubt = more(doubt, jnp.asarray(rng.normal(size=(12, 2000))))
    assert jnp.mean(doubt.proven) < 0.06


def test_a_state_without_noise_has_none_before_anything_is_proven(policy):
    q = np.repeat([0.0, 1e-3], 2)
    filt = sw.NDRSageHusa(sw.models.ConstantVelocity(axes=2), q, np.ones(2), policy)
    made = sw.run(filt, np.zeros(4), 0.1 * np.eye(4), 0.5 * np.ones((5, 2)), dt=DT)
    np.testing.assert_array_equal(made.q, np.broadcast_to(q, (5, 4)))


@pytest.mark.parametrize(
    ("times_q", "times_r", "median"),
    [(1.0, 20.0, 2), (30.0, 1.0, 25), (1.0, 0.05, 25), (1e-3, 1.0, 120)],
)
def test_what_is_wrong_is_proven_soon(policy, times_q, times_r, median):
    A, H, q, r = system()
    z = nominal_record(A, H, q, r, 100, 200, times_q, times_r)
    _, since = ever_proven(z, A, H, q, r, policy)
    assert np.median(since) <= median
    assert np.mean(since < 200) > 0.95


def test_the_tests_are_ratios_of_likelihoods():
    """Against the densities of scipy."""
    rng = np.random.default_rng(7)
    white, by_gain = rng.normal(size=(2, 3))
    arrived = np.array([True, False, True])
    white, by_gain = (np.where(arrived, a, 0.0) for a in (white, by_gain))
    before = doubts.none_yet(jnp.ones(3))
    after = doubts.weighed(before, PROOF, *map(jnp.asarray, (white, by_gain, white**2, arrived)))
    null = norm.logpdf(white[arrived])
    for now, (rho, c, first) in zip(after.together, doubts.TOGETHER, strict=True):
        other = norm.logpdf(white[arrived], c * by_gain[arrived], np.sqrt(rho))
        assert np.isclose(now, max(first + np.sum(other - null), 0.0))
    for now, (rho, first) in zip(after.alone, doubts.ALONE, strict=True):
        other = norm.logpdf(white[arrived], 0.0, np.sqrt(rho))
        first = max(first - np.log(3.0), 0.0)
        np.testing.assert_allclose(now[arrived], np.maximum(first + other - null, 0.0))
        assert np.isclose(now[1], first)


class Curved(sw.Model):
    """A parabola, which is measured."""

    def transition(self, x, u, dt):
        return x + jnp.stack([0.1 * x[1] ** 2, 0.0 * x[0]])

    def observe(self, x, u):
        return x[:1]


class Bending(Learned):
    """An EKF that knows how far f bends along (0.1, 0.6)."""

    def init(self, q, r):
        return None

    def __call__(self, memory, seen):
        sway = jnp.array([0.1, 0.6])
        bent = bend(seen.around, 2.0, sway, seen.around.F @ sway, seen.arrived)
        return Attenuation(inflate_r=jnp.ones_like(seen.r), bend=bent), None, bent


def test_a_bend_is_what_is_left_of_f_beside_its_tangent_and_widens_P():
    x, P = jnp.array([1.0, 2.0]), jnp.array([[0.04, 0.0], [0.0, 0.09]])
    filt = sw.EKF(Curved(), [0.01, 0.01], [1.0])
    filt = dataclasses.replace(filt, rule=Bending(None))

    def step(arrived):
        return filt.step(
            filt.init(x, P), jnp.zeros(1), None, jnp.asarray(DT), jnp.asarray([arrived])
        )[1]

    made = step(True)
    # Two standard deviations of the second state
    np.testing.assert_allclose(made.trace, [0.1 * 0.6**2, 0.0], atol=1e-12)
    F = np.array([[1.0, 0.4], [0.0, 1.0]])
    wide = F @ P @ F.T + 0.01 * np.eye(2) + np.outer(made.trace, made.trace)
    K = wide[:, :1] / (wide[0, 0] + 1.0)
    np.testing.assert_allclose(made.P, wide - K @ wide[:1], atol=1e-12)
    np.testing.assert_array_equal(step(False).trace, 0.0)


def test_what_is_saved_comes_back_by_either_name(policy, tmp_path):
    policy.save(tmp_path / "p", {"trained on": "nothing"})
    for kind in (sw.Policy, sw.Universal):
        again = kind.load(tmp_path / "p")
        assert eqx.tree_equal(again, policy)
    with pytest.raises(sw.InputError, match='reads "noise"'):
        sw.Noise.load(tmp_path / "p")
    card = json.loads((tmp_path / "p" / "policy.json").read_text())
    card["architecture"]["hidden"] = [0]
    (tmp_path / "p" / "policy.json").write_text(json.dumps(card))
    with pytest.raises(sw.InputError, match="damaged"):
        sw.Policy.load(tmp_path / "p")


def test_the_shipped_one_is_what_a_new_user_tries():
    policy = sw.Policy.pretrained("universal")
    assert isinstance(policy, sw.Universal)
    filt = sw.NDRSageHusa(sw.models.Lorenz(), [0.01] * 3, [1.0, 2.0], policy=policy)
    assert (filt.n_x, filt.n_z) == (3, 2)
    made = [sw.Universal.pretrained(name) for name in bench.SHIPPED]
    assert not eqx.tree_equal(made[0], made[1])


WIDE = sw.models.ConstantVelocity(axes=4)  # enough states that C has loops over them


@pytest.mark.parametrize(("model", "n_z"), [(sw.models.Lorenz(), 2), (WIDE, 4)], ids=["3", "8"])
def test_C_says_what_JAX_says(policy, model, n_z, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jaxtyping.config.update("jaxtyping_disable", True)
    rng = np.random.default_rng(4)
    n_x = 3 if n_z == 2 else 8
    filt = sw.NDRSageHusa(model, [0.01] * n_x, [1.0, 2.0] * (n_z // 2), policy)
    x0 = np.resize([-8.0, -6.0, 25.0], n_x)
    by_c, by_jax = (sw.Online(filt, x0, np.eye(n_x), backend=b) for b in ("c", "jax"))
    for k in range(100):
        z = None if k == 7 else x0[:n_z] + 3.0 * rng.normal(size=n_z)
        mask = np.arange(n_z) >= (k % 5 == 0)
        (x, P), (x_jax, P_jax) = (o.step(z, dt=0.01, mask=mask) for o in (by_c, by_jax))
        np.testing.assert_allclose(x, x_jax, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(P, P_jax, rtol=1e-9, atol=1e-9)
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def drawn(float64):
    """Systems of the family; of half of those in which something is wrong, the model is, too."""
    keys = jax.random.split(jax.random.key(0), 300)
    return jax.jit(lambda keys: family.draw(keys, 0.5))(keys)


@pytest.fixture(scope="module")
def derivatives(drawn):
    """Their F and H, and the same taken by JAX."""
    model = FamilyModel()

    def both(x, u):
        closed = model.transition_jacobian(x, u, 1.0), model.observe_jacobian(x, u)
        derived = jax.jacfwd(model.transition)(x, u, 1.0), jax.jacfwd(model.observe)(x, u)
        return closed, derived

    made = jax.jit(jax.vmap(both, in_axes=-1, out_axes=-1))(drawn.start, drawn.u)
    return jax.tree.map(np.asarray, made)


def test_what_is_padded_in_the_family_touches_nothing(drawn, derivatives):
    F, H = derivatives[0]
    states, channels = np.asarray(drawn.states), np.asarray(drawn.channels)
    assert np.all(F[states[:, None] & ~states[None]] == 0.0)
    assert np.all(H[:, ~states] == 0.0)
    assert np.all(H.swapaxes(1, 2)[~channels] == 0.0)
    assert set(states.sum(axis=0)) == {2, 3, 4, 5}
    assert set(channels.sum(axis=0)) == {1, 2, 3}
    moved = jax.jit(family.step)(drawn, drawn.start, jnp.asarray(0), jax.random.key(1))
    assert not np.any(np.asarray(moved.arrived) & ~channels)
    assert np.all(np.asarray(moved.x)[~states] == 0.0)


def test_the_familys_derivatives_are_those_of_its_functions(derivatives):
    for closed, derived in zip(*derivatives, strict=True):
        apart = np.abs(closed - derived) / (1.0 + np.max(np.abs(closed), axis=(0, 1)))
        assert np.max(apart) < 1e-9


def test_where_its_model_is_wrong_a_filter_is_not_told_so(drawn):
    wrong = np.asarray(drawn.truth.wrong)
    told, true = np.asarray(drawn.u), np.asarray(drawn.truth.u)
    off = np.any(told != true, axis=0)
    pushed = np.any(np.asarray(drawn.truth.push) != 0.0, axis=0)
    assert 0.3 < wrong.mean() < 0.5  # of those in which something is
    assert not np.any((off | pushed) & ~wrong)
    assert np.mean((off | pushed)[wrong]) > 0.9
    assert not np.any(wrong & np.asarray(drawn.right))


def test_what_counts_in_training(drawn):
    some = jax.tree.map(lambda a: a[..., :5], drawn)
    wrong = jnp.array([False, False, False, False, True])
    some = some._replace(truth=some.truth._replace(wrong=wrong))
    at = jnp.zeros((some.start.shape[0], 5)).at[0, 3].set(family.RUNAWAY)
    ekf = jnp.array([2.0, 1.0, 90.0, 2.0, 90.0])
    oracle = jnp.array([1.0, 90.0, 80.0, 1.0, 80.0])
    found = teaches(some, Running(at, None, None, None), Errors(ekf, ekf, oracle, ekf))
    # As ever; the oracle alone is lost; all are; the truth has run away; the model was wrong
    np.testing.assert_array_equal(found, [True, True, False, False, True])


def test_a_bearing_wraps(drawn):
    model = FamilyModel()
    z = jax.jit(jax.vmap(model.observe, in_axes=-1, out_axes=-1))(drawn.start, drawn.u)
    turn = 2.0 * np.pi * jax.vmap(lambda u: unpacked(u).wave, in_axes=-1, out_axes=-1)(drawn.u)
    form = np.asarray(jax.vmap(lambda u: unpacked(u).form, in_axes=-1, out_axes=-1)(drawn.u))
    nu = jax.vmap(model.residual, in_axes=-1, out_axes=-1)(z + 1.01 * turn, z, drawn.u)
    bearing = (form == BEARING) & np.asarray(drawn.channels)
    assert bearing.sum() > 20
    np.testing.assert_allclose(nu[bearing], 0.01 * turn[bearing], rtol=1e-6)
    others = form != BEARING
    assert np.all(np.asarray(nu)[others] > np.asarray(turn)[others])


def test_a_gradient_is_a_number_for_every_weight(policy):
    rng = np.random.default_rng(5)
    z, truth = rng.normal(size=(2, 12, 1)), jnp.asarray(rng.normal(size=(2, 12, 2)))
    z[0, 3], z[1, 5] = np.nan, 1e6

    @jax.jit
    @jax.grad
    def gradient(policy):
        filt = sw.NDRSageHusa(sw.models.ConstantVelocity(axes=1), [0.1, 0.1], [1.0], policy)
        return state_loss(
            filt, jnp.zeros((2, 2)), jnp.eye(2), jnp.asarray(z), jnp.asarray(truth), DT
        )

    sizes = [float(jnp.max(jnp.abs(g))) for g in jax.tree.leaves(gradient(policy))]
    assert np.all(np.isfinite(sizes))
    assert max(sizes) > 0.0


def test_an_oracle_knows_what_is_wrong_in_every_case():
    system = unseen.UNSEEN["masses"]
    draw = jax.jit(lambda case: unseen.episodes(system, case, jax.random.key(0), 2, 60))
    for case in unseen.CASES.values():
        drawn = draw(unseen.Case(*map(jnp.asarray, case)))
        assert np.isclose(float(drawn.q[0, 0, 0]), case.q * system.q0[0])
        wrong = np.asarray(drawn.r)[:20, 0] / system.r0[0]
        allowed = (case.r, case.r * case.outlier_scale)
        assert np.all(np.isclose(wrong[..., None], allowed).any(axis=-1))
        assert np.all(drawn.arrived) == (case.missing == 0.0)


def test_the_claims_are_checked_against_their_bars():
    rows = [
        {"system": s, "case": c, "filter": f, "ratio": 1.05 if f == bench.LEARNED else 1.2}
        for s in ("a", "b")
        for c in unseen.CASES
        for f in (*bench.UNTRAINED, bench.TUNED, bench.LEARNED)
    ]
    found = {check.claim.split(",")[0]: check for check in bench.checks(rows)}
    assert [check.holds for check in found.values()] == [True, False, True, True]
    assert np.isclose(bench.geometric([1.0, 4.0]), 2.0)
    middle, half = bench.interval([0.1, 0.2, 0.3])
    assert np.isclose(middle, 0.2)
    assert np.isclose(half, 4.303 * 0.1 / np.sqrt(3.0))


def test_level_is_what_has_the_same_three_digits():
    ours = {"a": 0.9, "b": 1.0004, "c": 1.0006, "d": 0.9996}
    rows = [
        {"system": s, "case": "right", "filter": f, "ratio": ours[s] if f == bench.LEARNED else 1.0}
        for s in ours
        for f in (*bench.UNTRAINED, bench.TUNED, bench.LEARNED)
    ]
    assert bench.standing(rows) == (1, 2, 1)
    assert np.isclose(bench.checks(rows)[-1].number, 0.5)  # a level one is not the best


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["train", "universal", "--begin", "universal", "--seeds", "2"], "give one a seed"),
        (
            ["train", "universal", "--begin", "flight-sim-paper-ndr-shared"],
            "has noise of its own",
        ),
        (["train", "universal", "--wrong-models", "2"], "is a share, 0..1"),
        (["bench", "universal", "--systems", "moon"], "There is no system 'moon'"),
        (["bench", "universal", "--runs", "0"], "--runs must be at least 1"),
        (["bench", "universal", "--policies", "nobody"], "There is no shipped policy 'nobody'"),
        (["bench", "universal", "--policies", "chaos"], "Universal.load reads"),
        (["train", "universal", "--epochs", "0"], "--epochs must be at least 1"),
        (["train", "universal", "--proof", "50"], "A proof is 0, for none, or between 6 and 20"),
        (["train", "universal", "--reach", "-1"], "The reach of a bend is not negative"),
    ],
)
def test_a_slip_on_the_command_line_is_a_sentence(args, says, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*args, "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_a_training_is_not_overwritten(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SystemExit) as ended:
        main(["train", "universal", "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert "holds no training" in " ".join(capsys.readouterr().err.split())
