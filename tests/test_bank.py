"""Banks of filters: the IMM is filterpy's, the weights are Bayes' rule's, starts find a heading."""

import jax.numpy as jnp
import numpy as np
import pytest
from filterpy.kalman import IMMEstimator, KalmanFilter
from linear import Linear

import sagewing as sw
from sagewing.models.manifolds import Angle, Product, Vector

pytestmark = pytest.mark.usefixtures("float64")
DT = 0.1
X0, P0 = np.array([0.0, 1.0]), np.diag([2.0, 1.0])
F, H = np.array([[1.0, DT], [0.0, 1.0]]), np.array([[1.0, 0.0]])
RNG = np.random.default_rng(0)
Z = np.cumsum(RNG.normal(size=(40, 1)), axis=0)


def linear(F=F):
    return Linear(jnp.asarray(F), jnp.asarray(H))


def grid(**settings):
    return sw.Bank.grid(linear(), [0.01, 0.02], [0.5], **settings)


def member_traces(bank, z):
    """The weights and the estimates of all members at every step."""
    return sw.run(bank, X0, P0, z, dt=DT, save=_trace).values


def _trace(step, extra):
    return step.trace


def kalman(z, q, r, x=X0, P=P0):
    """A plain Kalman filter: its estimates, NIS and variances of the innovation."""
    for z_k in z:
        x, P = F @ x, F @ P @ F.T + np.diag(q)
        if np.isfinite(z_k[0]):
            S, nu = (H @ P @ H.T)[0, 0] + r, z_k[0] - x[0]
            K = P[:, 0] / S
            x, P = x + K * nu, P - np.outer(K, K) * S
            yield x, P, nu**2 / S, S
        else:
            yield x, P, None, None


@pytest.mark.parametrize("models", [1, 2])
def test_an_IMM_is_that_of_filterpy(models):
    other = np.array([[1.0, DT], [0.0, 0.5]]) if models == 2 else F
    noises = [([0.01, 0.02], 0.5), ([0.5, 2.0], 0.5)]
    transitions, prior = np.array([[0.95, 0.05], [0.1, 0.9]]), [0.7, 0.3]
    theirs, ours = [], []
    for A, (q, r) in zip((F, other), noises, strict=True):
        one = KalmanFilter(2, 1)
        one.x, one.P, one.F, one.H = X0[:, None].copy(), P0.copy(), A, H
        one.Q, one.R = np.diag(q), np.array([[r]])
        theirs.append(one)
        ours.append(sw.EKF(linear(A), q, [r]))
    imm = IMMEstimator(theirs, prior, transitions)
    bank = sw.Bank(ours, prior, transitions=transitions, dof=None)
    result, trace = sw.run(bank, X0, P0, Z, dt=DT), member_traces(bank, Z)
    for k, z in enumerate(Z):
        imm.predict()
        imm.update(z)
        np.testing.assert_allclose(result.x[k], imm.x.ravel(), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(result.P[k], imm.P, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(trace.weights[k], imm.mu, rtol=1e-9, atol=1e-12)


def test_the_weights_and_the_mixture_of_a_grid_are_those_of_plain_numpy():
    z, factors, dof, forgetting = Z.copy(), (0.01, 0.1, 1.0, 10.0, 100.0), 3.0, 0.9
    z[7], z[20] = np.nan, z[20] + 3.0
    scales = [(a, b) for a in factors for b in factors]
    tracks = [kalman(z, [0.01 * a, 0.02 * a], 0.5 * b) for a, b in scales]
    bank = grid(dof=dof, forgetting=forgetting)
    result, trace = sw.run(bank, X0, P0, z, dt=DT), member_traces(bank, z)
    logs = np.zeros(25)
    for k, members in enumerate(zip(*tracks, strict=True)):
        x, P = (np.array([m[i] for m in members]) for i in (0, 1))
        if members[0][2] is not None:
            nis, S = (np.array([m[i] for m in members]) for i in (2, 3))
            logs = forgetting * (logs - np.log(np.exp(logs).sum()))
            logs += -0.5 * np.log(S) - 0.5 * (dof + 1.0) * np.log1p(nis / dof)
        w = np.exp(logs) / np.exp(logs).sum()
        mean = w @ x
        P = np.einsum("i,ijk->jk", w, P + np.einsum("ij,ik->ijk", x - mean, x - mean))
        np.testing.assert_allclose(trace.weights[k], w, rtol=1e-8, atol=1e-14)
        np.testing.assert_allclose(result.x[k], mean, rtol=1e-8)
        np.testing.assert_allclose(result.P[k], P, rtol=1e-8)
    assert np.all(result.q[-1] > np.array([0.01, 0.02]))  # the data is a random walk


def test_the_best_estimate_is_that_of_the_heaviest_member():
    bank = grid(output="best")
    result, trace = sw.run(bank, X0, P0, Z, dt=DT), member_traces(bank, Z)
    best = np.argmax(trace.weights, axis=1)
    np.testing.assert_array_equal(result.x, np.asarray(trace.x)[np.arange(len(Z)), :, best])


def test_members_step_as_they_do_alone_whatever_they_are():
    """Groups of EKFs and Sage-Husa filters, and filters that stand alone."""
    model, noise = linear(), ([0.01, 0.02], [0.5])
    alone = [
        sw.EKF(model, *noise),
        sw.EKF(model, [0.1, 0.2], [0.3]),
        sw.EKF(model, *noise, gate=3.0),
        sw.EKF(model, *noise, gate=2.0),
        sw.SageHusa(model, *noise, b=0.9),
        sw.SageHusa(model, *noise, b=0.99),
        sw.VBAKF(model, *noise),
        sw.EKF(linear(0.9 * F), *noise),
    ]
    z = Z.copy()
    z[5], z[15] = np.nan, 50.0
    bank = sw.Bank(alone)
    assert [group.size for group in bank.groups] == [2, 2, 2, 1, 1]
    trace = member_traces(bank, z)
    for i, filt in enumerate(alone):
        own = sw.run(filt, X0, P0, z, dt=DT)
        np.testing.assert_allclose(trace.x[:, :, i], own.x, rtol=1e-12)
        np.testing.assert_allclose(trace.P[:, :, :, i], own.P, rtol=1e-10)


def test_a_batch_with_masks_and_pieces_is_record_by_record():
    z = np.stack([Z, Z[::-1], 3.0 * Z])
    mask = RNG.random(z.shape[:2]) > 0.3
    bank = grid(transitions=np.full((25, 25), 0.04))
    together = sw.run(bank, X0, P0, z, dt=DT, mask=mask)
    first = sw.run(bank, X0, P0, z[:, :15], dt=DT, mask=mask[:, :15])
    rest = sw.run_from(bank, first.state, z[:, 15:], dt=DT, mask=mask[:, 15:])
    np.testing.assert_array_equal(rest.x, together.x[:, 15:])
    online = sw.Online(bank, X0, P0, backend="jax")
    for k in range(len(Z)):
        x, _ = online.step(z[2, k] if mask[2, k] else None, dt=DT)
    for i in range(3):
        own = sw.run(bank, X0, P0, z[i], dt=DT, mask=mask[i])
        np.testing.assert_allclose(own.x, together.x[i], rtol=1e-9)
        np.testing.assert_allclose(own.state.weights, together.state.weights[:, i], rtol=1e-7)
    np.testing.assert_allclose(x, together.x[2, -1], rtol=1e-12)
    np.testing.assert_allclose(online.state.weights, together.state.weights[:, 2], rtol=1e-9)


def test_a_member_that_fails_loses_its_weight_and_the_bank_goes_on():
    class Fragile(sw.Model):
        """Its transition overflows beyond 3."""

        def transition(self, x, u, dt):
            return jnp.where(x > 3.0, jnp.inf, x)

        def observe(self, x, u):
            return x[:1]

    members = [sw.EKF(Fragile(), [0.1, 0.1], [0.1]), sw.EKF(linear(), [0.1, 0.1], [0.1])]
    result = sw.run(sw.Bank(members), X0, P0, np.linspace(0.0, 8.0, 80)[:, None], dt=DT)
    assert np.all(np.isfinite(result.x))
    assert np.all(np.isfinite(result.P))
    assert result.state.weights[0] < 1e-2
    assert abs(result.x[-1, 0] - 8.0) < 0.5


class Vehicle(sw.ManifoldModel):
    """Place and heading; the odometer and the gyroscope are inputs, the place is measured."""

    space = Product(Vector(2), Angle())

    def transition(self, x, u, dt):
        go = dt * u[0] * jnp.stack([jnp.cos(x[2]), jnp.sin(x[2])])
        return self.space.plus(x, jnp.append(go, dt * u[1]))

    def observe(self, x, u):
        return x[:2]


def test_a_bank_of_eight_yaws_finds_the_heading_where_one_filter_needs_long():
    u = np.column_stack([np.full(60, 2.0), np.full(60, 0.3)])
    heading, true = 2.9, np.zeros((60, 3))
    place = np.zeros(2)
    for k in range(60):
        place = place + DT * 2.0 * np.array([np.cos(heading), np.sin(heading)])
        heading += DT * 0.3
        true[k] = *place, heading
    z = true[:, :2] + 0.05 * np.random.default_rng(1).normal(size=(60, 2))
    one = sw.EKF(Vehicle(), [1e-6, 1e-6, 1e-6], [0.05**2, 0.05**2])
    yaws = np.zeros((8, 3))
    yaws[:, 2] = 2.0 * np.pi * np.arange(8) / 8
    bank = sw.Bank.starts(one, yaws)
    start = (np.zeros(3), np.diag([0.01, 0.01, 0.5**2]))
    result = sw.run(bank, *start, z, u=u, dt=DT)
    off = np.angle(np.exp(1j * (result.x[:, 2] - true[:, 2])))
    assert np.abs(off[20:]).max() < 0.1
    alone = sw.run(one, np.zeros(3), np.diag([0.01, 0.01, np.pi**2 / 3]), z, u=u, dt=DT)
    off_alone = np.angle(np.exp(1j * (alone.x[:, 2] - true[:, 2])))
    assert np.abs(off_alone[20:]).max() > 3.0 * np.abs(off[20:]).max()


def test_the_mixture_of_two_headings_lies_between_them_across_the_seam():
    yaws = np.zeros((2, 3))
    yaws[:, 2] = [3.0, -3.0]
    one = sw.EKF(Vehicle(), [1e-6] * 3, [0.1, 0.1])
    nothing = np.full((1, 2), np.nan)
    bank = sw.Bank.starts(one, yaws)
    result = sw.run(bank, np.zeros(3), 0.01 * np.eye(3), nothing, u=np.zeros((1, 2)), dt=DT)
    np.testing.assert_allclose(np.cos(result.x[0, 2]), -1.0, atol=1e-12)
    np.testing.assert_allclose(result.P[0, 2, 2], 0.01 + 1e-6 + (np.pi - 3.0) ** 2, rtol=1e-9)


def test_the_robust_EKF_is_that_of_plain_numpy():
    """Student's t noise by variational iterations, in matrices of the whole state."""
    H, r, dof = np.array([[1.0, 0.0], [1.0, 0.5]]), np.array([0.5, 0.2]), 3.0
    z = np.column_stack([Z, Z + 0.1])
    z[5, 0], z[9, 1], z[12] = z[5, 0] + 20.0, np.nan, z[12] - 15.0
    model = Linear(jnp.asarray(F), jnp.asarray(H))
    result = sw.run(sw.RobustEKF(model, [0.01, 0.02], r, dof=dof, iterations=5), X0, P0, z, dt=DT)
    x, P = X0, P0
    for k, z_k in enumerate(z):
        x, P = F @ x, F @ P @ F.T + np.diag([0.01, 0.02])
        there = np.isfinite(z_k)
        A, y, scale = H[there], z_k[there] - (H @ x)[there], np.ones(there.sum())
        for i in range(6):
            R = np.diag(r[there] / scale)
            K = P @ A.T @ np.linalg.inv(A @ P @ A.T + R)
            new, P_new = K @ y, P - K @ A @ P
            v2 = (y - A @ new) ** 2 + np.diag(A @ P_new @ A.T)
            scale = (dof + 1.0) / (dof + v2 / r[there]) if i < 5 else scale
        x, P = x + new, P_new
        np.testing.assert_allclose(result.x[k], x, rtol=1e-8)
        np.testing.assert_allclose(result.P[k], P, rtol=1e-8)


@pytest.mark.parametrize(
    ("members", "settings", "said"),
    [
        ([], {}, "needs at least one member"),
        ([3], {}, "is not a filter"),
        ([1, 2], {}, "member 1 has"),
        ([1, 1], {"weights": [0.5, 0.6]}, "sum 1"),
        ([1, 1], {"weights": [1.0]}, "one entry for each of 2 members"),
        ([1, 1], {"transitions": [[0.9, 0.2], [0.5, 0.5]]}, "sum 1"),
        ([1, 1], {"transitions": [0.5, 0.5]}, "must be a matrix"),
        ([1, 1], {"dof": 0.0}, "degrees of freedom"),
        ([1, 1], {"forgetting": 1.5}, "must lie in"),
        ([1, 1], {"output": "all"}, '"mixture" or "best"'),
        ([1, 1], {"offsets": [[0.0, 0.0]]}, "for each member"),
    ],
)
def test_a_wrong_bank_is_refused_in_one_sentence(as_a_user_runs_it, members, settings, said):
    made = {
        1: sw.EKF(linear(), [0.1, 0.1], [1.0]),
        2: sw.EKF(sw.models.Lorenz(), [0.1] * 3, [1.0, 2.0]),
        3: "an EKF",
    }
    with pytest.raises(sw.InputError, match=said):
        sw.Bank([made[i] for i in members], **settings)


@pytest.mark.parametrize(
    ("settings", "said"), [({"dof": 0.0}, "degrees of"), ({"iterations": 0}, "1..100")]
)
def test_a_wrong_robust_EKF_is_refused_in_one_sentence(as_a_user_runs_it, settings, said):
    with pytest.raises(sw.InputError, match=said):
        sw.RobustEKF(linear(), [0.1, 0.1], [1.0], **settings)
