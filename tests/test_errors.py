"""What a user may get wrong, and the sentence that says so."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw

Q0, R0 = [0.01] * 3, [1.0, 2.0]
X0, P0, Z = np.ones(3), 0.1 * np.eye(3), np.zeros((5, 2))
BATCH = np.zeros((4, 5, 2))
ASYMMETRIC = np.eye(3) + np.triu(np.ones((3, 3)), 1)
INDEFINITE = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
NAN = float("nan")


pytestmark = pytest.mark.usefixtures("as_a_user_runs_it")


@pytest.fixture(scope="module")
def policy():
    sizes = {"encoder": (4,), "context": (4,), "head": (4,), "decoder": (4,)}
    return sw.Policy(sw.Architecture(3, 2, depth=1, hidden=4, **sizes), key=jax.random.key(0))


def refuses(*parts):
    """An InputError of one line that has these parts in this order, and no notes below it."""
    line = ".*".join(map(re.escape, parts))
    return pytest.raises(sw.InputError, match=rf"\A.*{line}.*\.\Z")


def ekf():
    return sw.EKF(sw.models.Lorenz(), Q0, R0)


def run(**given):
    return sw.run(ekf(), **{"x0": X0, "P0": P0, "z": Z} | given)


def test_an_input_error_is_a_value_error():
    assert issubclass(sw.InputError, ValueError)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"x0": np.ones(4)}, ["x0", "(3,)", "(4,)"]),
        ({"x0": np.ones((1, 3))}, ["x0", "(3,)", "(1, 3)"]),
        ({"x0": np.ones((2, 3)), "z": BATCH}, ["x0", "(3,)", "(4, 3)", "(2, 3)"]),
        ({"P0": np.ones(3)}, ["P0", "(3, 3)", "(3,)"]),
        ({"P0": np.eye(2)}, ["P0", "(3, 3)", "(2, 2)"]),
        ({"P0": np.ones((2, 3, 3)), "z": BATCH}, ["P0", "(3, 3)", "(4, 3, 3)", "(2, 3, 3)"]),
        ({"z": np.zeros(2)}, ["z", "(T, 2)", "(2,)"]),
        ({"z": np.zeros((5, 3))}, ["z", "(T, 2)", "(5, 3)"]),
        ({"z": np.zeros((1, 4, 5, 2))}, ["z", "(T, 2)", "(1, 4, 5, 2)"]),
        ({"u": 1.0}, ["u", "(5, n_u)", "()"]),
        ({"u": np.zeros(5)}, ["u", "(5, n_u)", "(5,)"]),
        ({"u": np.zeros((6, 1))}, ["u", "(5, n_u)", "(6, 1)"]),
        ({"u": np.zeros((2, 5, 1)), "z": BATCH}, ["u", "(5, n_u)", "(4, 5, n_u)", "(2, 5, 1)"]),
        ({"dt": np.full(4, 0.01)}, ["dt", "(5,)", "(4,)"]),
        ({"dt": np.full((1, 5), 0.01)}, ["dt", "(5,)", "(1, 5)"]),
        ({"dt": np.full((2, 5), 0.01), "z": BATCH}, ["dt", "(5,)", "(4, 5)", "(2, 5)"]),
        ({"mask": np.ones(4, bool)}, ["mask", "(5,)", "(5, 2)", "(4,)"]),
        ({"mask": np.ones((5, 3), bool)}, ["mask", "(5,)", "(5, 2)", "(5, 3)"]),
        ({"mask": np.ones((2, 5), bool), "z": BATCH}, ["mask", "(4, 5)", "(4, 5, 2)", "(2, 5)"]),
    ],
)
def test_a_wrong_shape_is_named_with_the_right_one(given, parts):
    with refuses(*parts):
        run(**given)


@pytest.mark.parametrize("name", ["x0", "P0", "z", "u", "dt", "mask"])
@pytest.mark.parametrize("value", ["text", [[1.0], [1.0, 2.0]], {"a": 1.0}])
def test_what_is_not_an_array_of_numbers_is_named(name, value):
    with refuses(name):
        run(**{name: value})


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"x0": [1.0, NAN, 0.0]}, ["x0", "finite"]),
        ({"x0": [1.0, np.inf, 0.0]}, ["x0", "finite"]),
        ({"P0": np.diag([1.0, NAN, 1.0])}, ["P0", "finite"]),
        ({"P0": np.diag([1.0, -2.0, 1.0])}, ["P0", "positive definite", "-2"]),
        ({"P0": np.zeros((3, 3))}, ["P0", "positive definite", "0"]),
        ({"P0": INDEFINITE}, ["P0", "positive definite", "-1"]),
        ({"P0": np.diag([1.0, 1.0, -1e-6])}, ["P0", "positive definite", "-1e-06"]),
        ({"P0": ASYMMETRIC}, ["P0", "symmetric"]),
        ({"P0": np.stack([P0] * 3 + [-P0]), "z": BATCH}, ["P0", "positive definite"]),
        ({"dt": -0.01}, ["dt", "not negative"]),
        ({"dt": NAN}, ["dt", "finite"]),
        ({"dt": np.inf}, ["dt", "finite"]),
        ({"dt": [0.01, 0.01, NAN, 0.01, 0.01]}, ["dt", "every step"]),
    ],
)
def test_a_wrong_value_is_named(given, parts):
    with refuses(*parts):
        run(**given)


def test_a_batch_of_no_records_is_refused():
    with refuses("z", "(0, 5, 2)"):
        run(z=np.zeros((0, 5, 2)))


@pytest.mark.parametrize(
    ("Q", "R", "parts"),
    [
        (0.01, R0, ["Q0", "[n_x]", "[n_x, n_x]", "()"]),
        ([], R0, ["Q0", "[n_x]", "(0,)"]),
        (np.ones((3, 2)), R0, ["Q0", "[n_x, n_x]", "(3, 2)"]),
        (np.ones((3, 3, 3)), R0, ["Q0", "[n_x, n_x]", "(3, 3, 3)"]),
        ("much", R0, ["Q0", "str"]),
        ([0.1, NAN, 0.1], R0, ["Q0", "finite"]),
        ([0.1, -0.5, 0.1], R0, ["Q0", "positive semi-definite", "-0.5"]),
        (INDEFINITE, R0, ["Q0", "positive semi-definite", "-1"]),
        (ASYMMETRIC, R0, ["Q0", "symmetric"]),
        (Q0, 1.0, ["R0", "[n_z]", "[n_z, n_z]", "()"]),
        (Q0, [1.0, 0.0], ["R0", "positive definite", "0"]),
        (Q0, [1.0, -3.0], ["R0", "positive definite", "-3"]),
        (Q0, [1.0, NAN], ["R0", "finite"]),
        (Q0, np.ones((2, 2)), ["R0", "positive definite", "0"]),
    ],
)
@pytest.mark.parametrize("make", [sw.EKF, sw.SageHusa])
def test_noise_that_is_no_covariance_is_refused_when_the_filter_is_built(make, Q, R, parts):
    with refuses(*parts):
        make(sw.models.Lorenz(), Q, R)


def test_process_noise_may_be_zero():
    assert sw.EKF(sw.models.Lorenz(), [0.0] * 3, R0).n_x == 3


def test_process_noise_may_have_low_rank():
    # White acceleration noise, for instance: rounded to float32 it has an eigenvalue just below 0.
    for dt in np.logspace(-3.0, 0.0, 30):
        G = np.array([[dt**2 / 2.0], [dt]])
        assert sw.EKF(sw.models.ConstantVelocity(1), G @ G.T, [1.0]).n_x == 2
    G = np.random.default_rng(0).normal(size=(6, 2))
    assert sw.EKF(sw.models.ConstantVelocity(3), G @ G.T, [1.0] * 3).n_x == 6


# The last of these is 1 in float32, where the attenuation would be 0 / 0.
@pytest.mark.parametrize("b", [0.0, 1.0, -0.5, 1.5, NAN, 1.0 - 1e-9])
def test_a_forgetting_factor_lies_between_0_and_1(b):
    with refuses("b", "between 0 and 1"):
        sw.SageHusa(sw.models.Lorenz(), Q0, R0, b=b)


@pytest.mark.parametrize(
    "bounds", [(2.0, 100.0), (0.5, 0.9), (-1.0, 10.0), (NAN, 10.0), (0.5, NAN), (0.5, np.inf)]
)
def test_bounds_enclose_one(bounds, policy):
    with refuses("bounds", str(bounds)):
        sw.SageHusa(sw.models.Lorenz(), Q0, R0, bounds=bounds)
    with refuses("bounds", str(bounds)):
        sw.NDRSageHusa(sw.models.Lorenz(), Q0, R0, policy=policy, bounds=bounds)
    with refuses("bounds", str(bounds)):
        sw.Policy(policy.arch, bounds, key=jax.random.key(0))


@pytest.mark.parametrize("bounds", [(0.5,), (0.5, 1.0, 2.0), 5.0])
def test_bounds_are_two_numbers(bounds):
    with refuses("bounds"):
        sw.SageHusa(sw.models.Lorenz(), Q0, R0, bounds=bounds)


def test_gain_noise_is_prior_or_posterior(policy):
    with refuses("gain_noise", "prior", "posterior", "'later'"):
        sw.SageHusa(sw.models.Lorenz(), Q0, R0, gain_noise="later")
    with refuses("gain_noise", "prior", "posterior", "'later'"):
        sw.NDRSageHusa(sw.models.Lorenz(), Q0, R0, policy=policy, gain_noise="later")
    with refuses("gain_noise", "prior", "posterior", "'later'"):
        sw.Policy(policy.arch, gain_noise="later", key=jax.random.key(0))


class Wrong(sw.Model):
    """Two states, one sensor, and one method that returns something else."""

    method: str = eqx.field(static=True)

    def transition(self, x, u, dt):
        return x[:1] if self.method == "transition" else x

    def observe(self, x, u):
        return {"observe": x, "a list": [x[0]], "a scalar": x[0]}.get(self.method, x[:1])

    def innovation(self, z, z_hat):
        return jnp.zeros(3) if self.method == "innovation" else z - z_hat

    def normalize(self, x):
        return jnp.zeros(3) if self.method == "normalize" else x

    def transition_jacobian(self, x, u, dt):
        return jnp.eye(3) if self.method == "transition_jacobian" else jnp.eye(2)

    def observe_jacobian(self, x, u):
        return jnp.zeros(2) if self.method == "observe_jacobian" else jnp.zeros((1, 2))


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        ("transition", ["Wrong.transition", "(2,)", "Q0", "n_x = 2", "(1,)"]),
        ("observe", ["Wrong.observe", "(1,)", "R0", "n_z = 1", "(2,)"]),
        ("a list", ["Wrong.observe", "(1,)", "R0", "n_z = 1", "list"]),
        ("a scalar", ["Wrong.observe", "(1,)", "R0", "n_z = 1", "()"]),
        ("innovation", ["Wrong.innovation", "(1,)", "R0", "n_z = 1", "(3,)"]),
        ("normalize", ["Wrong.normalize", "(2,)", "Q0", "n_x = 2", "(3,)"]),
        ("transition_jacobian", ["Wrong.transition_jacobian", "(2, 2)", "(3, 3)"]),
        ("observe_jacobian", ["Wrong.observe_jacobian", "(1, 2)", "(2,)"]),
    ],
)
def test_a_model_that_returns_the_wrong_shape_is_told_which_method(method, parts):
    filt = sw.EKF(Wrong(method), [1.0, 1.0], [1.0])
    with refuses(*parts):
        sw.run(filt, np.ones(2), np.eye(2), np.zeros((5, 1)))
    with refuses(*parts):
        sw.Online(filt, np.ones(2), np.eye(2), "jax").step([1.0])


@pytest.mark.parametrize("n_x", [2, 4])
def test_a_Q0_that_does_not_fit_the_model_is_named(n_x):
    filt = sw.EKF(sw.models.Lorenz(), [0.01] * n_x, R0)
    with refuses("Lorenz.transition", "Q0", f"n_x = {n_x}"):
        sw.run(filt, np.ones(n_x), np.eye(n_x), Z)


def test_an_R0_that_does_not_fit_the_model_is_named():
    filt = sw.EKF(sw.models.Lorenz(), Q0, [1.0, 1.0, 1.0])
    with refuses("Lorenz.observe", "(3,)", "R0", "n_z = 3", "(2,)"):
        sw.run(filt, X0, P0, np.zeros((5, 3)))


class Pushed(sw.Model):
    """Needs an input of two numbers."""

    def transition(self, x, u, dt):
        return x + dt * u

    def observe(self, x, u):
        return x[:1]


@pytest.mark.parametrize("u", [None, np.zeros((5, 3))])
def test_a_missing_or_unfitting_input_is_named(u):
    filt = sw.EKF(Pushed(), [1.0, 1.0], [1.0])
    with refuses("Pushed.transition", "u"):
        sw.run(filt, np.ones(2), np.eye(2), np.zeros((5, 1)), u=u)
    with refuses("Pushed.transition", "u"):
        sw.Online(filt, np.ones(2), np.eye(2), "jax").step([1.0], u=None if u is None else u[0])


def test_a_policy_for_other_dimensions_is_refused(policy):
    with refuses("policy", "n_x = 3", "n_z = 2", "n_x = 4", "n_z = 2"):
        sw.NDRSageHusa(sw.models.ConstantVelocity(), [1.0] * 4, R0, policy=policy)


@pytest.mark.parametrize("given", ["chaos", None])
def test_what_is_not_a_policy_is_refused(given):
    with refuses("policy", "sw.Policy"):
        sw.NDRSageHusa(sw.models.Lorenz(), Q0, R0, policy=given)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"features": "psychic"}, ["features", "whitened", "raw", "nis", "'psychic'"]),
        ({"n_x": 0}, ["n_x", "0"]),
        ({"n_z": -1}, ["n_z", "-1"]),
        ({"n_x": 2.5}, ["n_x", "2.5"]),
        ({"depth": 0}, ["depth", "0"]),
        ({"depth": 10**9}, ["depth", "1000000000"]),
        ({"hidden": 0}, ["hidden", "0"]),
        ({"encoder": ()}, ["encoder", "()"]),
        ({"head": (16, 0)}, ["head", "(16, 0)"]),
        ({"context": 32}, ["context", "32"]),
        ({"clip": 0.0}, ["clip", "0"]),
        ({"clip": NAN}, ["clip", "nan"]),
    ],
)
def test_sizes_that_make_no_network_are_refused(given, parts):
    with refuses(*parts):
        sw.Architecture(**{"n_x": 3, "n_z": 2} | given)


def test_an_unknown_shipped_policy_is_named():
    with refuses("'telepathy'"):
        sw.Policy.pretrained("telepathy")


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"z": [0.0, 0.0, 0.0]}, ["z", "(2,)", "(3,)"]),
        ({"z": 0.0}, ["z", "(2,)", "()"]),
        ({"z": [[0.0, 0.0]]}, ["z", "(2,)", "(1, 2)"]),
        ({"z": ["far", "near"]}, ["z"]),
        ({"dt": -0.01}, ["dt", "not negative"]),
        ({"dt": NAN}, ["dt", "finite"]),
        ({"dt": [0.01, 0.02]}, ["dt", "(2,)"]),
        ({"mask": [True, True, True]}, ["mask", "(2,)", "(3,)"]),
        ({"mask": np.ones((2, 2), bool)}, ["mask", "(2,)", "(2, 2)"]),
        ({"u": "left"}, ["u"]),
    ],
)
def test_online_refuses_what_run_refuses(given, parts):
    online = sw.Online(ekf(), X0, P0, "jax")
    with refuses(*parts):
        online.step(**{"z": [0.0, 0.0]} | given)


@pytest.mark.parametrize(
    ("x0", "P", "parts"),
    [
        (np.ones(2), P0, ["x0", "(3,)", "(2,)"]),
        (np.ones((2, 3)), P0, ["x0", "(3,)", "(2, 3)"]),
        (X0, -P0, ["P0", "positive definite"]),
    ],
)
def test_online_refuses_a_wrong_start(x0, P, parts):
    with refuses(*parts):
        sw.Online(ekf(), x0, P)


def test_going_on_from_a_state_of_another_batch_is_refused():
    filt = ekf()
    one = filt.init(jnp.ones(3), jnp.eye(3))
    four = filt.init(jnp.ones((3, 4)), jnp.ones((3, 3, 4)))
    for state, z in ((one, BATCH), (four, Z), (four, BATCH[:2])):
        with refuses("state", "z"):
            sw.run_from(filt, state, z)


def test_going_on_from_the_state_of_another_filter_is_refused():
    state = ekf().init(jnp.ones(3), jnp.eye(3))
    with refuses("state"):
        sw.run_from(sw.SageHusa(sw.models.Lorenz(), Q0, R0), state, Z)
