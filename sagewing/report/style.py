"""Names and colours of filters: the same everywhere."""

LABELS = {
    "truth": "truth",
    "ekf": "EKF",
    "shkf95": "Sage-Husa 0.95",
    "shkf99": "Sage-Husa 0.99",
    "shkf995": "Sage-Husa 0.995",
    "shkf999": "Sage-Husa 0.999",
    "shkf95-posterior": "Sage-Husa 0.95, posterior",
    "shkf99-posterior": "Sage-Husa 0.99, posterior",
    "vbakf": "VBAKF",
    "enn-akf": "ENN-AKF",
    "l-ekf": "L-EKF",
    "kalmannet": "KalmanNet",
    "ndr": "NDR-SHKF",
    "ndr-posterior": "NDR-SHKF, posterior",
    "ndr-paper": "NDR-SHKF, as in the paper",
    "ekf-tuned": "EKF, tuned",
    "ekf-gated": "EKF, tuned, gated",
    "ekf-oracle": "EKF, oracle",
    "onboard": "vehicle's own",
    "imu-only": "IMU alone",
}
# Okabe and Ito's palette, which colour-blind readers can tell apart; a variant is darker.
COLOURS = {
    "truth": "#000000",
    "ekf": "#0072B2",
    "shkf95": "#E69F00",
    "shkf99": "#CC79A7",
    "shkf995": "#C9A400",
    "shkf999": "#8E5BB5",
    "shkf95-posterior": "#9C6B00",
    "shkf99-posterior": "#8C4A6E",
    "vbakf": "#009E73",
    "enn-akf": "#56B4E9",
    "l-ekf": "#B8AE1F",
    "kalmannet": "#999999",
    "ndr": "#D55E00",
    "ndr-posterior": "#8B1A00",
    "ndr-paper": "#F2A07B",
    "ekf-tuned": "#003F66",
    "ekf-gated": "#1B9E77",
    "ekf-oracle": "#444444",
    "onboard": "#7F7F7F",
    "imu-only": "#A0522D",
}
SYSTEMS = {"lorenz": "Lorenz", "rossler": "Rössler", "thomas": "Thomas"}
SCENARIOS = {
    "baseline": "Baseline",
    "disturbance": "Disturbance: noisier pose for 2 s",
    "denial": "Denial: no pose for 2 s",
}
