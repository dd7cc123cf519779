"""A pendulum from scratch: simulate it, estimate it with an EKF and a Sage-Husa filter, compare.

A camera sees the sine of the angle, thirty times a second for a minute. From 20 s to 40 s it is
eight times as noisy as its data sheet says, and at 50 s it sees nothing for one second.

    python examples/pendulum.py
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import sagewing as sw

DT = 1.0 / 30.0
STEPS = 1800
STD = 0.05  # of the camera, by its data sheet
NOISY, BLIND = slice(600, 1200), slice(1500, 1530)
Q = np.array([1e-6, 1e-4])  # friction and wind, in a step: variances of angle and rate
R = np.array([STD**2])
X0, P0 = np.array([1.0, 0.0]), np.diag([0.1, 0.1])


class Pendulum(sw.Model):
    """State: angle (rad) and its rate (rad/s). Measured: the sine of the angle."""

    length: float = 1.0  # m

    def transition(self, x, u, dt):
        """Half a step of the rate, one of the angle, half of the rate: energy stays."""
        angle, rate = x
        rate = rate - 0.5 * dt * 9.81 / self.length * jnp.sin(angle)
        angle = angle + dt * rate
        rate = rate - 0.5 * dt * 9.81 / self.length * jnp.sin(angle)
        return jnp.stack([angle, rate])

    def observe(self, x, u):
        """The sine of the angle."""
        return jnp.sin(x[:1])


def simulated(seed):
    """The true states [T, 2], the measurements [T, 1] and their true standard deviation [T]."""
    draw, model, x = np.random.default_rng(seed), Pendulum(), X0
    truth = np.empty((STEPS, 2))
    for k in range(STEPS):
        x = np.asarray(model.transition(x, None, DT)) + np.sqrt(Q) * draw.standard_normal(2)
        truth[k] = x
    std = np.full(STEPS, STD)
    std[NOISY] *= 8.0
    z = np.sin(truth[:, :1]) + std[:, None] * draw.standard_normal((STEPS, 1))
    z[BLIND] = np.nan  # nothing arrived: the filters predict
    return truth, z, std


def rmse(result, truth, steps):
    """Of the angle, in degrees."""
    error = np.asarray(result.x)[steps, 0] - truth[steps, 0]
    return np.rad2deg(np.sqrt(np.mean(error**2)))


def plot(results, truth, std, path):
    """Errors of the angle above, the noise estimate of each filter below."""
    t = DT * np.arange(1, STEPS + 1)
    figure, (above, below) = plt.subplots(2, sharex=True, figsize=(8, 5), layout="constrained")
    for (name, result), colour in zip(results.items(), ("#0072B2", "#CC79A7"), strict=True):
        error = np.rad2deg(np.asarray(result.x)[:, 0] - truth[:, 0])
        above.plot(t, error, color=colour, lw=1.0, label=name)
        below.plot(t, np.sqrt(np.asarray(result.r)[:, 0]), color=colour, label=name)
    below.plot(t, std, "k--", lw=1.0, label="truth")
    above.axvspan(DT * BLIND.start, DT * BLIND.stop, color="0.85", label="blind")
    above.set(ylabel="error of the angle, degrees", ylim=(-15, 15))
    below.set(ylabel="std of the camera's noise, 1", xlabel="time, s", yscale="log")
    above.legend(loc="upper left", ncols=3)
    below.legend(loc="upper left")
    below.set(ylim=(0.03, 1.0))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main(folder):
    """Run it, print the errors, write the picture."""
    truth, z, std = simulated(seed=0)
    filters = {
        "EKF": sw.EKF(Pendulum(), Q, R),
        "Sage-Husa": sw.SageHusa(Pendulum(), Q, R, b=0.98, gain_noise="posterior"),
    }
    results = {name: sw.run(filt, x0=X0, P0=P0, z=z, dt=DT) for name, filt in filters.items()}
    parts = {"0..20 s": slice(0, 600), "20..40 s": NOISY, "40..60 s": slice(1200, STEPS)}
    print("RMSE of the angle, degrees" + "".join(f"{part:>10}" for part in parts))
    for name, result in results.items():
        errors = "".join(f"{rmse(result, truth, steps):10.2f}" for steps in parts.values())
        print(f"{name:26}{errors}")
    plot(results, truth, std, folder / "pendulum.png")
    print(f"Written: {folder / 'pendulum.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
