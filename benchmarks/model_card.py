"""Write a benchmark's figures into the cards of the shipped flight filters that it ran.

python benchmarks/model_card.py RESULT.json [RESULT.json ...], each of `sagewing bench flight` or
`sagewing demo`; see docs/flight.md.
"""

import json
import sys
from pathlib import Path

from sagewing.policy.storage import SHIPPED
from sagewing.studies.card import add_figures, figures

NOT_FOR = {
    "sim": "vehicles other than the simulated QDrone, other pose noise than trained for, starts "
    "with a velocity error of more than 2 m/s, which can turn the attitude for a second",
    "real": "vehicles unlike a Crazyflie 2.1, flight without an IMU calibrated once a flight, "
    "blackouts of many seconds, other pose noise than trained for",
}


def main() -> None:
    """Every filter of every result that ships."""
    for path in sys.argv[1:]:
        result = json.loads(Path(path).read_text())
        settings = result["settings"]
        kind = "sim" if settings["data"] == "sim" else "real"
        about = {k: result[k] for k in ("command", "seed")} | {"flights": "held-out circles"}
        for name in settings["filters"]:
            folder = SHIPPED / f"flight-{kind}-{settings['noise']}-{name}"
            if folder.is_dir():
                found = figures(result["rows"], name)
                add_figures(folder, {**about, **found}, NOT_FOR[kind])
                print(folder.name, found["denial"])


if __name__ == "__main__":
    main()
