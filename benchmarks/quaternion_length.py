"""What P must know of a quaternion that is put back to length 1: flights with and without it.

Without it, `normalize` changes x alone, as many filters do it. The flights are random paths that
nobody was trained or tested on. Usage: python benchmarks/quaternion_length.py
"""

from flight_bound import SEED, errors, flights

from sagewing.catalogue import UNIVERSAL
from sagewing.models import Switched
from sagewing.problems.flight.dataset import SIM
from sagewing.problems.flight.setup import NOISE, estimator
from sagewing.problems.weights import flight_weights
from sagewing.studies.flight import SCENARIOS, build, make_records

FILTERS = ("ekf", "shkf995", "shkf999", UNIVERSAL)  # with noise that was not fitted to either


class LengthUnknown(Switched):
    """The same two models, where P stays what it was."""

    @property
    def curved(self) -> slice:
        return slice(0, 0)


def main() -> None:
    data, pieces = flights()
    learned = flight_weights(FILTERS, SIM, "paper", {})
    model = estimator(data.vehicle)
    models = {"P stays": LengthUnknown(model.models, model.inputs), "P follows": model}
    print(f"{len(pieces)} flights; RMSE of position, m, and of attitude, rad")
    for scenario in SCENARIOS:
        records, windows = make_records(scenario, pieces, NOISE["paper"], SEED, 1)
        for name in FILTERS:
            said = [f"{scenario:12s} {name:14s}"]
            for how, used in models.items():
                filt = build(name, used, learned.get(name))
                position, attitude = errors(filt, pieces, records, windows)
                said.append(f"{how}: {position:7.3f} m {attitude:.4f} rad")
            print("   ".join(said), flush=True)


if __name__ == "__main__":
    main()
