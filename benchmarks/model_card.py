"""Write a benchmark's figures into the cards of the shipped flight filters that it ran.

python benchmarks/model_card.py RESULT.json [RESULT.json ...], each of `sagewing bench flight` or
`sagewing demo`; see docs/flight.md.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from sagewing.files import to_json, write_atomically
from sagewing.policy.storage import CARD, SHIPPED

NOT_FOR = {
    "sim": "vehicles other than the simulated QDrone, other pose noise than trained for, starts "
    "with a velocity error of more than 2 m/s, which can turn the attitude for a second",
    "real": "vehicles unlike a Crazyflie 2.1, flight without an IMU calibrated once a flight, "
    "blackouts of many seconds, other pose noise than trained for",
}
ERRORS = ("pos_rmse_m", "att_rmse_rad", "drift_m")


def figures(rows: list[dict[str, Any]], name: str) -> dict[str, dict[str, float]]:
    """Means over flights and draws, and the median drift, in every scenario."""
    found: dict[str, dict[str, float]] = {}
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        of = [row for row in rows if (row["filter"], row["scenario"]) == (name, scenario)]
        means = {e: float(np.mean([row[e] for row in of])) for e in ERRORS[:2]}
        found[scenario] = means | {"drift_m": float(np.median([row["drift_m"] for row in of]))}
    return found


def main() -> None:
    """Every filter of every result that ships."""
    for path in sys.argv[1:]:
        result = json.loads(Path(path).read_text())
        settings = result["settings"]
        kind = "sim" if settings["data"] == "sim" else "real"
        for name in settings["filters"]:
            folder = SHIPPED / f"flight-{kind}-{settings['noise']}-{name}"
            if not folder.is_dir():
                continue
            card = json.loads((folder / CARD).read_text())
            card["provenance"] |= {
                "figures": {
                    "command": result["command"],
                    "seed": result["seed"],
                    "flights": "held-out circles",
                    **figures(result["rows"], name),
                },
                "not_for": NOT_FOR[kind],
            }
            write_atomically(folder / CARD, to_json(card))
            print(folder.name, card["provenance"]["figures"]["denial"])


if __name__ == "__main__":
    main()
