"""Names and colours of filters: the same everywhere."""

LABELS = {
    "truth": "truth",
    "ekf": "EKF",
    "shkf95": "Sage-Husa 0.95",
    "shkf99": "Sage-Husa 0.99",
    "shkf95-posterior": "Sage-Husa 0.95, posterior",
    "shkf99-posterior": "Sage-Husa 0.99, posterior",
    "vbakf": "VBAKF",
    "enn-akf": "ENN-AKF",
    "l-ekf": "L-EKF",
    "kalmannet": "KalmanNet",
    "ndr": "NDR-SHKF",
    "ndr-posterior": "NDR-SHKF, posterior",
    "ekf-tuned": "EKF, tuned",
    "ekf-oracle": "EKF, oracle",
}
# Okabe and Ito's palette, which colour-blind readers can tell apart; a variant is darker.
COLOURS = {
    "truth": "#000000",
    "ekf": "#0072B2",
    "shkf95": "#E69F00",
    "shkf99": "#CC79A7",
    "shkf95-posterior": "#9C6B00",
    "shkf99-posterior": "#8C4A6E",
    "vbakf": "#009E73",
    "enn-akf": "#56B4E9",
    "l-ekf": "#B8AE1F",
    "kalmannet": "#999999",
    "ndr": "#D55E00",
    "ndr-posterior": "#8B1A00",
    "ekf-tuned": "#003F66",
    "ekf-oracle": "#444444",
}
SYSTEMS = {"lorenz": "Lorenz", "rossler": "Rössler", "thomas": "Thomas"}
