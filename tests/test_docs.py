"""The documentation keeps its promises: its code runs, its commands exist, its numbers are ours."""

import re
import subprocess
import sys

import numpy as np
import pytest
from docs_pages import DOCS, PAGES, ROOT, blocks, module

import sagewing as sw
from sagewing.cli.commands import GROUPS
from sagewing.logs.flight import Pose
from sagewing.logs.readers.npz import read_flight
from sagewing.logs.track import Scene, Track

pytestmark = pytest.mark.usefixtures("as_a_user_runs_it")

RUNS = "<!-- runs -->"
COMMANDS = DOCS / "commands.md"
LARGEST_PICTURE, LARGEST_FLIGHT = 100_000, 300_000
ATTITUDE = sorted((DOCS / "pictures").glob("attitude-*.svg"))  # `docs/attitude_picture.py`
FLIGHT = sorted((DOCS / "pictures").glob("flight-*.svg"))  # drawn from flights that are not here


def _named(pages):
    return [pytest.param(page, id=page.stem) for page in pages]


@pytest.mark.parametrize("page", _named(p for p in PAGES if blocks(p, "python")))
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    """All blocks of a page share their names, as a reader's session would."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)
    assert "nan" not in capsys.readouterr().out


@pytest.mark.parametrize("page", _named(p for p in PAGES if blocks(p, "sh", RUNS)))
def test_the_marked_commands_of_a_page_run(page, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    ours = f'export PYTHONPATH="{ROOT}"\nsagewing() {{ "{sys.executable}" -m sagewing "$@"; }}\n'
    for block in blocks(page, "sh", RUNS):
        done = subprocess.run(
            ["bash", "-ec", ours + block], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def _shown_commands():
    shown = [
        (page.name, line.strip())
        for page in (ROOT / "README.md", *PAGES)
        if page != COMMANDS
        for line in re.findall(
            r"(?:^ *|`)(sagewing [a-z][^`\n]*)",
            page.read_text().replace("\\\n", " "),
            re.MULTILINE,
        )
    ]
    assert len(shown) > 20
    return shown


def test_every_option_that_is_shown_is_an_option():
    """By the page of all commands, which another test compares with the command line."""
    sections = re.findall(r"^#+ (sagewing.*?)\n(.*?)^```$", COMMANDS.read_text(), re.S | re.M)
    known = {name: body.split("```text\n")[1] for name, body in sections}
    known |= {f"sagewing {group}": "" for group in GROUPS}
    for page, line in _shown_commands():
        words = line.split()
        command = " ".join(words[:3]) if " ".join(words[:3]) in known else " ".join(words[:2])
        assert command in known, f"{page}: {line}"
        for option in re.findall(r"--([a-z][a-z0-9-]*)", line):
            stem = option.removeprefix("no-")
            found = re.search(rf"--{option}\b|--no-{stem}\b", known[command])
            assert found, f"{page}: {line}: there is no --{option}"


def test_the_page_of_commands_is_what_the_command_line_says():
    page = module(DOCS / "commands.py").page()
    assert COMMANDS.read_text(encoding="utf-8") == page, "run: python docs/commands.py"
    assert max(map(len, "".join(blocks(COMMANDS, "text")).splitlines())) <= 80


def test_the_reference_has_every_public_name():
    documented = re.findall(r"^::: sagewing\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(set(dir(sw)) - {"__version__"})


@pytest.mark.parametrize("name", ["choosing", "index", "trouble"])
def test_a_number_of_the_advice_stands_in_a_table_of_the_benchmarks(name):
    pages = ("protocol", "flight", "deploy", "universal")
    tables = "".join((DOCS / f"{page}.md").read_text() for page in pages)
    text = (DOCS / f"{name}.md").read_text()
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    numbers = re.findall(r"(?<![\w.])\d+\.\d{2,}%?(?!\w)", text)
    assert numbers
    for number in numbers:
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", tables), number


def test_pictures_are_small_and_are_drawn_by_their_script(tmp_path, capsys):
    pictures = module(DOCS / "pictures.py")
    pictures.main(tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    kept = [path for path in (DOCS / "pictures").iterdir() if path not in FLIGHT + ATTITUDE]
    assert drawn == {path.name for path in kept}
    for path in kept:
        assert path.stat().st_size < LARGEST_PICTURE
    said = capsys.readouterr().out
    page = (DOCS / "idea.md").read_text()
    for name, column in (("ekf", 2), ("shkf95", 2), ("shkf999", 2), ("ndr", 2), ("ndr", 1)):
        row = next(line.split() for line in said.splitlines() if line.split()[0] == name)
        assert row[column] in page, row


def _circle(radius: float) -> Scene:
    """A circle of 10 s without a pose in its middle, and two filters that are off by `radius`."""
    t = np.arange(0.0, 10.0, 0.01)
    truth = np.stack([np.cos(t), np.sin(t), np.zeros_like(t)], axis=1)
    upright = np.tile([1.0, 0.0, 0.0, 0.0], (len(t), 1))
    std = np.full_like(truth, 0.1)
    tracks = tuple(
        Track(name, Pose(truth + np.array([off, 0.0, 0.0]), upright), position_std=std)
        for name, off in (("ekf", 2 * radius), ("ndr-universal", radius))
    )
    seen = np.where(((t < 4.0) | (t > 6.0))[:, None], truth, np.nan)
    pose = Pose(seen, upright)
    return Scene(f"circle {radius}", t, pose, t, Pose(truth, upright), ((4.0, 6.0),), tracks)


def test_the_picture_of_the_readme_shows_the_flight_with_the_median_error(tmp_path):
    picture = module(DOCS / "flight_picture.py")
    shown = picture.median([_circle(radius) for radius in (0.3, 0.1, 0.4, 0.2)])
    assert shown.name == "circle 0.2"
    assert {path.name for path in FLIGHT} == {f"flight-{page}.svg" for page in picture.PAGES}
    for path in FLIGHT:
        assert path.stat().st_size < LARGEST_FLIGHT
        assert str(path.relative_to(ROOT)) in (ROOT / "README.md").read_text()
        picture.draw(shown, path.stem.removeprefix("flight-"), tmp_path / path.name)
        assert (tmp_path / path.name).stat().st_size > 10_000


def test_the_picture_of_attitudes_is_drawn_for_both_pages(tmp_path):
    picture = module(DOCS / "attitude_picture.py")
    assert {path.name for path in ATTITUDE} == {f"attitude-{page}.svg" for page in picture.PAGES}
    errors = np.linspace(120.0, 1.0, picture.STEPS)
    turning = dict.fromkeys(picture.ATTITUDES, errors)
    found = dict.fromkeys(picture.ATTITUDES, np.tile(errors, (2, 1)))
    assert (picture.seconds_to_find(found["euler"]) > 14.0).all()
    for path in ATTITUDE:
        assert path.stat().st_size < LARGEST_FLIGHT
        page = path.stem.removeprefix("attitude-")
        assert f"pictures/{path.name}#only-{page}" in (DOCS / "flight.md").read_text()
        picture.draw(page, turning, found, tmp_path / path.name)
        assert (tmp_path / path.name).stat().st_size > 10_000


def test_the_site_builds_and_fetches_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for page in tmp_path.rglob("*.html"):
        fetched = re.findall(r"<(?:script|link|img|iframe)[^>]+https?://[^>]*>", page.read_text())
        assert not [tag for tag in fetched if 'rel="canonical"' not in tag], page.name


def test_the_pendulum_prints_what_the_first_page_shows(tmp_path, capsys):
    module(ROOT / "examples" / "pendulum.py").main(tmp_path)
    said = capsys.readouterr().out.splitlines()
    assert "\n".join(said[:3]) in (DOCS / "start.md").read_text()
    assert (tmp_path / "pendulum.png").stat().st_size > 10_000


def test_the_simulated_log_is_a_log(tmp_path):
    path = tmp_path / "flight.npz"
    module(ROOT / "examples" / "flight_log.py").write_log(path)
    with np.load(path) as log:
        off = log["pos"] - log["truth_pos"][:: len(log["truth_t"]) // len(log["pose_t"])]
    assert 0.04 < np.median(np.abs(off)) / 0.6745 < 0.06
    flight = read_flight(path)
    assert flight.t[-1] - flight.t[0] > 9.5
