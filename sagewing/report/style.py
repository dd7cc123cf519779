"""Names and colours of filters: the same everywhere."""

LABELS = {
    "truth": "truth",
    "ekf": "EKF",
    "shkf95": "Sage-Husa 0.95",
    "shkf99": "Sage-Husa 0.99",
    "ndr": "NDR-SHKF",
}
# Okabe and Ito's palette, which colour-blind readers can tell apart.
COLOURS = {
    "truth": "#000000",
    "ekf": "#0072B2",
    "shkf95": "#E69F00",
    "shkf99": "#CC79A7",
    "ndr": "#D55E00",
}
SYSTEMS = {"lorenz": "Lorenz", "rossler": "Rössler"}
