"""The interactive page in a browser: it draws, its plots move together, it fits a phone."""

import shutil
import time
from dataclasses import replace

import numpy as np
import pytest
from scenes import ROWS, circle

from sagewing.logs.flight import Pose
from sagewing.report.page.flight_page import flight_page

CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver on the PATH"
)
# No request but that of the page itself: it is a file.
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1366,768",
)
WAIT_S = 10.0
ZOOMED = """
    const plots = [...document.querySelectorAll("canvas:not(.space)")];
    return plots.map(c => c.ariaLabel.split(", ")[1]);
"""
PICTURES = """
    return [...document.querySelectorAll("canvas")].map(c => c.toDataURL());
"""
FRAMES = """
    const done = arguments[arguments.length - 1];
    requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)));
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(CHROMEDRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(flight_page(circle(), ROWS, "A circle", "footer"))
    return path


@pytest.fixture
def opened(browser, page):
    screen(browser, 1366, 2600)  # all plots at once: one out of sight is not drawn
    yield from visited(browser, page)


def visited(browser, page):
    browser.get(page.as_uri())
    browser.execute_async_script(FRAMES)  # until its layout has settled
    yield browser
    # The browser's advice about reading pictures back is for these tests, not for the page.
    assert [said for said in browser.get_log("browser") if said["source"] != "rendering"] == []


def screen(browser, width, height, **more):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False, **more}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def until(condition, what):
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def click(browser, selector):
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def test_a_filter_is_switched_off_and_on_by_its_name(opened):
    before = opened.execute_script(PICTURES)
    button = '#legend button[data-key="1"]'

    def state():
        return opened.execute_script(
            "return document.querySelector(arguments[0]).ariaPressed", button
        )

    assert state() == "true"
    click(opened, button)
    until(lambda: state() == "false", "the legend says that the filter is off")
    after = opened.execute_script(PICTURES)
    assert sum(a != b for a, b in zip(before, after, strict=True)) >= 8
    click(opened, button)
    until(lambda: state() == "true", "the legend says that the filter is on")
    assert opened.execute_script(PICTURES) == before


def test_a_name_under_the_pointer_lights_its_filter_alone_until_it_is_clicked(opened):
    before = opened.execute_script(PICTURES)
    name = opened.find_element("css selector", '#legend button[data-key="0"]')
    webdriver.ActionChains(opened, duration=20).move_to_element(name).perform()
    until(lambda: opened.execute_script(PICTURES)[3] != before[3], "the other filter fades")
    lit = opened.execute_script(PICTURES)
    name.click()
    until(lambda: opened.execute_script(PICTURES)[3] not in (lit[3], before[3]), "it is gone")
    name.click()
    until(lambda: opened.execute_script(PICTURES)[3] == lit[3], "it is back")


def test_a_drag_over_one_plot_zooms_all_and_a_double_click_shows_everything(opened):
    whole = opened.execute_script(ZOOMED)
    assert len(whole) >= 10
    assert len(set(whole)) == 1
    plot = opened.find_elements("css selector", "#pose canvas")[1]
    actions = webdriver.ActionChains(opened, duration=20)
    actions.move_to_element_with_offset(plot, -50, 0).click_and_hold()
    actions.move_by_offset(100, 0).release().perform()
    until(lambda: opened.execute_script(ZOOMED) != whole, "the drag zooms")
    zoomed = opened.execute_script(ZOOMED)
    assert len(set(zoomed)) == 1
    start, end = (float(word) for word in zoomed[0].removesuffix(" s").split(" to "))
    assert 1.0 < end - start < 3.0
    values = opened.execute_script("return document.querySelectorAll('#pose .values i').length")
    assert values >= 6 * 2  # the crosshair is in all six plots, with a value of each filter
    webdriver.ActionChains(opened, duration=20).double_click(plot).perform()
    until(lambda: opened.execute_script(ZOOMED) == whole, "everything is shown again")


def test_keys_and_buttons_do_what_the_mouse_does(opened):
    whole = opened.execute_script(ZOOMED)
    click(opened, '#tools button[aria-label="Zoom in"]')
    until(lambda: opened.execute_script(ZOOMED) != whole, "the button zooms")
    near = opened.execute_script(ZOOMED)
    plot = opened.find_element("css selector", "#pose canvas")
    plot.send_keys("\ue012")  # left arrow
    until(lambda: opened.execute_script(ZOOMED) != near, "the arrow pans")
    assert len(set(opened.execute_script(ZOOMED))) == 1
    plot.send_keys("0")
    until(lambda: opened.execute_script(ZOOMED) == whole, "0 shows everything")


def test_the_paths_turn_and_the_noise_of_another_filter_is_shown(opened):
    space = opened.find_element("css selector", "canvas.space")
    before = opened.execute_script(PICTURES)
    webdriver.ActionChains(opened, duration=20).drag_and_drop_by_offset(space, 80, 20).perform()
    after = opened.execute_script(PICTURES)
    assert after[0] != before[0]
    heat = "return [...document.querySelectorAll('#heat figure')].filter(f => !f.hidden).length"
    assert opened.execute_script(heat) == 3
    opened.execute_script(
        "const s = document.querySelector('#tools select'); s.value = 0;"
        "s.dispatchEvent(new Event('change'))"
    )
    until(lambda: opened.execute_script(heat) == 1, "the EKF has an r and no q and d")


NAMES = "return [...document.querySelectorAll('figcaption .name')].map(n => n.textContent)"


def test_with_a_truth_there_are_errors(opened):
    names = opened.execute_script(NAMES)
    assert {"position error [m]", "attitude error [°]", "NIS per degree of freedom"} <= {*names}


def test_without_a_truth_there_is_consistency_in_their_place(browser, tmp_path):
    page = tmp_path / "report.html"
    rows = [{"filter": "ekf", "nis_mean": 5.0, "nis_expected": 6.0}]
    page.write_text(flight_page(circle(truth=False), rows, "A circle", "footer"))
    for opened in visited(browser, page):
        names = opened.execute_script(NAMES)
        assert "NIS per degree of freedom" in names
        assert not any("error" in name for name in names)


def test_nothing_is_wider_than_a_phone(opened):
    screen(opened, 390, 844, mobile=True)
    wide = opened.execute_script(
        "return [...document.querySelectorAll('body *')]"
        ".filter(e => !e.closest('.scroll, #legend, .values'))"
        ".filter(e => e.getBoundingClientRect().right > 390.5).map(e => e.outerHTML.slice(0, 80))"
    )
    assert wide == []
    assert opened.execute_script("return document.documentElement.scrollWidth") <= 390


def test_paper_is_light_whatever_the_screen_is(opened):
    corner = (
        "const c = document.querySelector('#pose canvas');"
        "return [...c.getContext('2d').getImageData(1, 1, 1, 1).data]"
    )
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark})
    until(lambda: max(opened.execute_script(corner)[:3]) < 80, "dark where the screen is")
    opened.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert opened.execute_script(corner) == [255, 255, 255, 255]
    opened.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert max(opened.execute_script(corner)[:3]) < 80
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


COLOURED = """
    const c = document.querySelectorAll("#pose canvas")[0];
    const rows = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
    const strong = (first) => {
      for (let x = first; x < first + 5; x++) {
        for (let y = 0; y < c.height; y++) {
          const [r, g, b] = rows.subarray(4 * (y * c.width + x), 4 * (y * c.width + x) + 3);
          if (Math.max(r, g, b) - Math.min(r, g, b) > 90) return true;
        }
      }
      return false;
    };
    return [0.2, 0.45, 0.6, 0.75, 0.9].map((share) => strong(Math.round(share * c.width)));
"""


def test_a_truth_that_is_known_in_the_outage_alone_does_not_cut_the_rest(browser, tmp_path):
    whole = circle()
    inside = (whole.t >= 4.0) & (whole.t <= 4.3)
    poses = (whole.truth.position, whole.truth.quaternion)
    known = Pose(*(np.where(inside[:, None], a, np.nan) for a in poses))
    page = tmp_path / "report.html"
    page.write_text(flight_page(replace(whole, truth=known), ROWS, "A circle", "footer"))
    screen(browser, 1366, 2600)
    for opened in visited(browser, page):
        assert opened.execute_script(COLOURED) == [True] * 5
        names = opened.execute_script(
            "return [...document.querySelectorAll('#legend .label')].map(n => n.textContent)"
        )
        assert names[0] == "hidden pose"
