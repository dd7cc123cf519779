"""A user's own logs as flights to train on, with one kept aside to test on."""

from collections.abc import Sequence
from pathlib import Path

from sagewing.errors import InputError
from sagewing.logs.flight import Flight
from sagewing.logs.readers.read import read_log
from sagewing.models.quadrotor import QDRONE
from sagewing.problems.flight.dataset import SIM, Dataset
from sagewing.problems.flight.identify import rotor_drag

RATE_HZ = 100.0  # of the rows that filters are trained on
LAST_SHARE = 0.25  # share of a single log that is kept aside
SHORTEST_TEST_S = 4.0  # the benchmark takes the pose away for two seconds in the middle


def are_logs(data: Sequence[str]) -> bool:
    """Whether these are logs, and neither `sim` nor a folder of our `.npz` flights."""
    if len(data) > 1:
        return True
    folder = Path(data[0])
    return data[0] != SIM and not (folder.is_dir() and any(folder.rglob("*.npz")))


def own_flights(paths: Sequence[str]) -> Dataset:
    """All logs but the last to train on; the last, or the end of a single one, to test on.

    Without a pose the IMU stays the input, and the accelerometer measures the airspeed through the
    rotors' drag, which is fitted to the training flights.
    """
    for path in paths:
        if not Path(path).exists():
            raise InputError(
                f"Flights are {SIM!r}, a folder of .npz files, or logs; there is nothing at {path}."
            )
    flights = [read_log(path).flight(RATE_HZ) for path in paths]
    names = [flight.name for flight in flights]
    if len(set(paths)) < len(paths):
        raise InputError(f"A log is named twice in --data: {', '.join(paths)}.")
    notes = [f"{f.name}: {repair}" for f in flights for repair in f.repairs]
    if len(flights) > 1:
        train, test = flights[:-1], flights[-1]
        notes.append(f"{test.name} is kept aside: nothing is fitted to it")
    else:
        train, test = _split(flights[0])
        notes.append(f"the last {test.seconds:.0f} s of {names[0]} are kept aside")
    if test.seconds < SHORTEST_TEST_S:
        raise InputError(
            f"{test.name}, kept aside to test on, lasts {test.seconds:.1f} s; give a log of at "
            f"least {SHORTEST_TEST_S:g} s last, or a single one of {4 * SHORTEST_TEST_S:g} s."
        )
    drag = tuple(max(value, 0.0) for value in rotor_drag(train))
    notes.append(f"rotor drag {drag[0]:.2f}, {drag[1]:.2f} 1/s, fitted to the flights")
    vehicle = QDRONE._replace(drag=drag)
    return Dataset("real", train, [test], [], vehicle, None, "drag", notes)


def _split(flight: Flight) -> tuple[list[Flight], Flight]:
    at = (1.0 - LAST_SHARE) * flight.seconds
    return [flight.part(0.0, at)], flight.part(at, flight.seconds + flight.dt)
