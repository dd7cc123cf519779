"""The flights of `--data sim|DIR`, split for training and testing, and their vehicle."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from sagewing.errors import InputError
from sagewing.logs.flight import Flight
from sagewing.logs.readers.npz import read_flights
from sagewing.models.quadrotor import QDRONE, Vehicle
from sagewing.problems.flight.identify import (
    KNOWN_CRAZYFLIE,
    Identified,
    airborne,
    aligned_with_thrust,
    identify,
    rotor_drag,
)
from sagewing.problems.flight.records import WithoutPose
from sagewing.sim.plant import circle_flights, training_flights

SIM = "sim"
HELD_OUT = "circle"  # a flight with this word in its name is for testing
Part = Literal["train", "test"]


class Dataset(NamedTuple):
    """Flights and the vehicle that flew them; `other` are flights of another vehicle."""

    kind: Literal["sim", "real"]
    train: list[Flight]
    test: list[Flight]
    other: list[Flight]
    vehicle: Vehicle
    other_vehicle: Vehicle | None  # only its drag is known
    without_pose: WithoutPose  # the model that is used in a blackout
    notes: list[str]  # the repairs of every file, and how well the vehicle fits

    def on_other_vehicle(self) -> "Dataset":
        """This dataset with the other vehicle's flights to test on."""
        if self.other_vehicle is None:
            raise InputError(
                "There are no flights of another vehicle; a log without four motor commands is one."
            )
        return self._replace(test=self.other, vehicle=self.other_vehicle)


def load(data: str, seed: int = 0, parts: Sequence[Part] = ("train", "test")) -> Dataset:
    """Simulated flights of this seed for "sim", or the real ones below a folder.

    Refuses a folder without flights for one of the `parts`; simulates no other parts than these.
    """
    if data == SIM:
        return simulated(seed, parts)
    if not Path(data).is_dir():
        raise InputError(f"Flights are {SIM!r} or a folder; there is no folder at {data}.")
    dataset = real(data)
    for part, purpose, condition in (
        ("train", "train on", f"without the word {HELD_OUT!r} in its name"),
        ("test", "test on", f"with the word {HELD_OUT!r} in its name"),
    ):
        if part in parts and not getattr(dataset, part):
            raise InputError(
                f"{data} has no flight to {purpose}: it needs at least one with four motor "
                f"commands and {condition}, such as B2_{HELD_OUT}_fast.npz."
            )
    return dataset


def simulated(seed: int, parts: Sequence[Part]) -> Dataset:
    """QDrone flights: five along random paths for training, three circles for testing."""
    train = training_flights(seed) if "train" in parts else []
    test = circle_flights(seed) if "test" in parts else []
    return Dataset(
        "sim",
        [Flight.simulated(f"sim-path-{i}", flown) for i, flown in enumerate(train, 1)],
        [Flight.simulated(f"sim-circle-{i}", flown) for i, flown in enumerate(test, 1)],
        [],
        QDRONE,
        None,
        "dynamic",
        [],
    )


def real(folder: str) -> Dataset:
    """The flights below a folder: circles are held out, the others identify the vehicle.

    A flight without four motor commands is another vehicle's: the drag is fitted to its first half,
    and its second half is for testing.
    """
    flights = read_flights(folder)
    own = [flight for flight in flights if flight.motors is not None]
    train = [flight for flight in own if HELD_OUT not in _words(flight)]
    test = [flight for flight in own if HELD_OUT in _words(flight)]
    identified = identify(train) if train else KNOWN_CRAZYFLIE
    train, test = ([prepared(flight, identified) for flight in part] for part in (train, test))
    without_motors = [flight for flight in flights if flight.motors is None]
    first = [flight.part(0.0, flight.seconds / 2) for flight in without_motors]
    other = [flight.part(flight.seconds / 2, flight.seconds) for flight in without_motors]
    other_vehicle = identified.vehicle._replace(drag=rotor_drag(first)) if first else None
    notes = [f"{f.name}: {repair}" for f in (*train, *test, *other) for repair in f.repairs]
    notes.append(_fit_note(identified))
    return Dataset("real", train, test, other, identified.vehicle, other_vehicle, "drag", notes)


def prepared(flight: Flight, identified: Identified) -> Flight:
    """The longest part in the air, with the model's commands and the attitude aligned to thrust."""
    in_air = airborne(flight)
    if not in_air.any():
        raise InputError(f"{flight.name} never leaves the ground; take it out of the folder.")
    first, last = _longest(in_air)
    level = replace(
        aligned_with_thrust(flight, identified.vehicle.drag), motors=identified.commands(flight)
    )
    return level.part(first * flight.dt, last * flight.dt)


def _longest(in_air: np.ndarray) -> tuple[int, int]:
    """The first index of the longest run of True, and the index after its last."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], in_air, [False]])))
    starts, stops = edges[::2], edges[1::2]
    i = int(np.argmax(stops - starts))
    return int(starts[i]), int(stops[i])


def _words(flight: Flight) -> list[str]:
    return flight.name.lower().split("_")


def _fit_note(identified: Identified) -> str:
    """How well the identified vehicle fits the flights that it was identified from."""
    fit = identified.fit
    if not fit.samples:
        return "no flights to identify the vehicle from: a Crazyflie 2.1 is assumed"
    forces, turns = (", ".join(f"{v:.2g}" for v in part) for part in (fit.std[:3], fit.std[3:]))
    explained = ", ".join(f"{100 * v:.0f}%" for v in fit.r2)
    return (
        f"vehicle identified from {fit.samples} rows: motors lag {1e3 * identified.lag_s:.0f} ms "
        f"and are {1e3 * identified.delay_s:.0f} ms late; residuals are {forces} m/s^2 and {turns} "
        f"rad/s^2 (explained variance: {explained})"
    )
