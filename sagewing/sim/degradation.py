"""Sensor faults in flight: the paper's domain randomisation, one function for each mechanism.

A function takes a key and magnitudes, and returns a signal to add to those of one record;
`Degradation` draws the magnitudes and combines the mechanisms. Use `jax.vmap` over keys for
batches.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from sagewing.shapes import Duration, Scalar, real_dtype

Signal = Float[Array, "T channels"]
Imu = Float[Array, "T 6"]
Pose = Float[Array, "T 6"]
Magnitude = Scalar | float


def mixture(
    key: PRNGKeyArray,
    shape: tuple[int, ...],
    std: Magnitude,
    outlier_std: Magnitude,
    probability: Magnitude,
) -> Float[Array, "..."]:
    """Gaussian noise with outliers, drawn for each channel."""
    k_which, k_noise = jax.random.split(key)
    outlier = jax.random.bernoulli(k_which, probability, shape)
    noise = jax.random.normal(k_noise, shape, real_dtype())
    return jnp.where(outlier, outlier_std, std) * noise


def random_walk(key: PRNGKeyArray, shape: tuple[int, ...], std: Magnitude) -> Signal:
    """A random walk whose steps have this standard deviation."""
    return jnp.cumsum(std * jax.random.normal(key, shape, real_dtype()), axis=0)


def vibration(
    key: PRNGKeyArray,
    shape: tuple[int, ...],
    dt: Duration,
    std: Magnitude,
    amplitude: Magnitude,
    frequency: Magnitude,
) -> Signal:
    """Noise whose amplitude oscillates with the rotors: n_k (1 + A sin^2(omega k dt))."""
    pulse = 1.0 + amplitude * jnp.sin(frequency * dt * jnp.arange(shape[0])) ** 2
    return std * jax.random.normal(key, shape, real_dtype()) * pulse[:, None]


@dataclass(frozen=True)
class Degradation:
    """The largest magnitudes of every mechanism; the defaults are the paper's table.

    Each is drawn for every record from U(ratio, 1) times its largest value; probabilities and the
    amplitude and frequency of the vibration are fixed. The paper gives no attitude noise: 0.1 rad
    is ours, and attitude outliers are off by default.
    """

    ratio: float = 0.1
    position_std: float = 1.0
    position_outlier_std: float = 5.0
    position_outlier_probability: float = 0.05
    attitude_std: float = 0.1
    attitude_outlier_std: float = 0.5
    attitude_outlier_probability: float = 0.0
    imu_std: float = 0.1
    imu_outlier_std: float = 5.0
    imu_outlier_probability: float = 0.01
    scale_factor_std: float = 1e-3
    turn_on_bias_std: float = 1e-3
    bias_walk_std: float = 1e-5
    vibration_std: float = 1.0
    vibration_amplitude: float = 0.1
    vibration_frequency: float = 628.0  # rad/s

    def averaged(self, samples: int) -> "Degradation":
        """The same for IMU rows that are means of `samples` samples; the pose is not averaged."""
        white_factor, walk_factor = samples**-0.5, samples**0.5
        return replace(
            self,
            imu_std=white_factor * self.imu_std,
            imu_outlier_std=white_factor * self.imu_outlier_std,
            vibration_std=white_factor * self.vibration_std,
            bias_walk_std=walk_factor * self.bias_walk_std,
        )

    def as_flown(self) -> "Degradation":
        """The same pose noise, and no added faults of the IMU."""
        return replace(
            self,
            imu_std=0.0,
            imu_outlier_std=0.0,
            scale_factor_std=0.0,
            turn_on_bias_std=0.0,
            bias_walk_std=0.0,
            vibration_std=0.0,
        )

    def pose(self, key: PRNGKeyArray, z: Pose) -> Pose:
        """Position and Euler angles with the noise of the positioning system."""
        k_size, k_position, k_attitude = jax.random.split(key, 3)
        position_std, position_outlier_std, attitude_std, attitude_outlier_std = self._magnitudes(
            k_size,
            self.position_std,
            self.position_outlier_std,
            self.attitude_std,
            self.attitude_outlier_std,
        )
        shape = (z.shape[0], 3)
        noise = (
            mixture(
                k_position,
                shape,
                position_std,
                position_outlier_std,
                self.position_outlier_probability,
            ),
            mixture(
                k_attitude,
                shape,
                attitude_std,
                attitude_outlier_std,
                self.attitude_outlier_probability,
            ),
        )
        return z + jnp.concatenate(noise, axis=1)

    def imu(self, key: PRNGKeyArray, u: Imu, dt: Duration) -> Imu:
        """(u + faults) (1 + s) + turn-on bias + walk + vibration."""
        k_size, k_fault, k_scale, k_bias, k_walk, k_vibration = jax.random.split(key, 6)
        std, outlier_std, scale_std, bias_std, walk_std, vibration_std = self._magnitudes(
            k_size,
            self.imu_std,
            self.imu_outlier_std,
            self.scale_factor_std,
            self.turn_on_bias_std,
            self.bias_walk_std,
            self.vibration_std,
        )
        channels = u.shape[1:]
        faults = mixture(k_fault, u.shape, std, outlier_std, self.imu_outlier_probability)
        s = scale_std * jax.random.normal(k_scale, channels, real_dtype())
        bias = bias_std * jax.random.normal(k_bias, channels, real_dtype())
        shake = vibration(
            k_vibration,
            u.shape,
            dt,
            vibration_std,
            self.vibration_amplitude,
            self.vibration_frequency,
        )
        return (u + faults) * (1.0 + s) + bias + random_walk(k_walk, u.shape, walk_std) + shake

    def _magnitudes(self, key: PRNGKeyArray, *largest: float) -> Float[Array, "n"]:
        """One record's magnitudes, drawn from U(ratio, 1) times the largest ones."""
        share = jax.random.uniform(key, (len(largest),), real_dtype(), minval=self.ratio)
        return share * jnp.asarray(largest, real_dtype())
