"""Names and colours of filters: the same everywhere."""

import colorsys

from sagewing.files import utf8

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
    "ndr-shared": "NDR-SHKF, shared network",
    "ndr-paper": "NDR-SHKF, as in the paper",
    "ndr-universal": "universal",
    "ndr-untrained": "NDR-SHKF, every d = 1/2",
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
    "ndr-shared": "#D6457B",
    "ndr-paper": "#F2A07B",
    "ndr-universal": "#E8743B",
    "ndr-untrained": "#C7B299",
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
OTHERS = ("#4C78A8", "#B279A2", "#72B7B2", "#9D755D", "#BAB0AC")  # for names not in the list
# On a dark page: what is darker than the first becomes light, and nothing is below the second.
DARKEST, LEAST_LIGHT = 0.3, 0.46


def label(name: str) -> str:
    """A filter's name for people; a name that is not known stands for itself."""
    return LABELS.get(name, name)


def light(name: str) -> str:
    """A filter's colour on a light page."""
    return COLOURS.get(name) or OTHERS[sum(utf8(name)) % len(OTHERS)]


def dark(name: str) -> str:
    """The same hue on a dark page."""
    red, green, blue = (int(light(name)[i : i + 2], 16) / 255.0 for i in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    lightness = 0.95 - lightness if lightness < DARKEST else max(lightness, LEAST_LIGHT)
    bright = colorsys.hls_to_rgb(hue, lightness, saturation)
    return "#" + "".join(f"{round(255 * part):02X}" for part in bright)
