"""Tests of the report page in a browser."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from page_watch import PATIENCE_S, complaints, drawn, hovered, opened, requests, says, until
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

if TYPE_CHECKING:
    from pathlib import Path

    from selenium.webdriver import Chrome


def test_page_opens_with_verdict_and_culprits(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["slow"])
    assert browser.find_element(By.ID, "verdict").text == "FAIL"
    assert browser.title == "FAIL: validation of alpha"
    culprits = browser.find_element(By.ID, "culprits")
    assert culprits.find_element(By.TAG_NAME, "strong").text == "gpu3"
    assert culprits.rect["y"] + culprits.rect["height"] < 900
    assert "50.0 % below its median of 5 earlier passes" in browser.find_element(By.ID, "drift").text
    assert complaints(browser) == []


def test_page_shows_node_changes_and_doubts(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["slow"])
    assert [item.text.splitlines() for item in browser.find_elements(By.CSS_SELECTOR, "#doubts li")] == [
        ["gpu[1-2]", "comes and goes"],
        ["gpu4", "Suspected: 3 % below others, repeat with 40 repeats"],
    ]
    node_changes = [item.text.splitlines() for item in browser.find_elements(By.CSS_SELECTOR, "#node-changes li")]
    assert node_changes[1] == ["gpu1 resumed", "was drained: busbar: new (root, 2026-11-20T10:00:00)"]
    assert node_changes[3] == ["gpu2 stays drained", "fan is loud (bob, 2026-11-19T10:00:00)"]
    assert node_changes[5] == ["Left over: the reservation busbar-validation could not be deleted"]


def test_curves_floor_and_ceiling_are_drawn_and_hovering_shows_values(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["slow"])
    place = drawn(browser, "details.test .plot")
    lines = [line.get_attribute("d") for line in place.find_elements(By.CSS_SELECTOR, ".scatterlayer path.js-line")]
    assert len(lines) == 4
    assert all(line and line.count("L") + line.count("C") + line.count("H") >= 1 for line in lines)
    legend = [item.text for item in place.find_elements(By.CSS_SELECTOR, ".legendtext")]
    assert legend == ["out-of-place", "in-place", "floor 460", "ceiling 490.3"]
    ticks = [tick.text for tick in place.find_elements(By.CSS_SELECTOR, ".xtick text")]
    assert ticks[-1] == "16 GiB"
    points = place.find_elements(By.CSS_SELECTOR, ".scatter path.point")
    for point, words in ((points[11], "237 GB/s at 16 GiB"), (points[2], "GB/s at 32 MiB")):
        ActionChains(browser).move_to_element(point).perform()
        until(browser, partial(says, place, words))
    assert "out-of-place" in hovered(place)


def test_pair_map_shows_the_slow_node(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["pairs"])
    place = drawn(browser, ".pairs .plot")
    assert place.find_elements(By.CSS_SELECTOR, ".heatmaplayer image, .heatmaplayer path")
    assert "gpu7" in [tick.text for tick in place.find_elements(By.CSS_SELECTOR, ".xtick text")]
    area = place.find_element(By.CSS_SELECTOR, ".nsewdrag")
    across, down = (area.rect["width"] / 12 * 3 / 2 - area.rect["width"] / 2, area.rect["height"] / 24)
    ActionChains(browser).move_to_element_with_offset(area, int(across), int(down)).perform()
    until(browser, lambda: place.find_elements(By.CSS_SELECTOR, ".hoverlayer text"))
    shown = hovered(place)
    assert "gpu2" in shown
    assert "gpu7" in shown
    assert "121 GB/s, FAIL" in shown
    assert browser.find_element(By.CSS_SELECTOR, "#culprits strong").text == "gpu7"


def column(browser: Chrome, name: str) -> list[str]:
    return [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, f"#table tbody td.c-{name}")]


def test_table_sorts_and_filters(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["slow"])
    assert column(browser, "verdict")[0] == "FAIL"
    button = browser.find_element(By.CSS_SELECTOR, "#table th.c-busbw button")
    button.click()
    assert column(browser, "busbw") == ["237", "362", "472", "473", "475"]
    button.click()
    assert column(browser, "busbw") == ["475", "473", "472", "362", "237"]
    head = browser.find_element(By.CSS_SELECTOR, "#table th.c-busbw")
    assert head.get_attribute("aria-sort") == "descending"
    browser.find_element(By.ID, "filter").send_keys("gpu3")
    assert [
        row.text.split()[0] for row in browser.find_elements(By.CSS_SELECTOR, "#table tbody tr") if row.is_displayed()
    ] == ["FAIL"]


@pytest.mark.parametrize("name", ["slow", "pairs", "evil"])
def test_page_fits_a_phone_without_horizontal_scrolling(browser: Chrome, pages: dict[str, Path], name: str) -> None:
    opened(browser, pages[name], width=360, height=740)
    drawn(browser, "details[open] .plot")
    width, inner = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert width <= inner == 360
    assert browser.execute_script("return parseFloat(getComputedStyle(document.body).fontSize)") >= 15


def test_page_loads_nothing_from_other_hosts(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["slow"])
    drawn(browser, "details.test .plot")
    drawn(browser, "#history .plot")
    asked = requests(browser)
    assert asked[0] == pages["slow"].as_uri()
    assert [url for url in asked[1:] if not url.startswith(("data:", "blob:"))] == []
    entries: list[dict[str, Any]] = browser.execute_script("return performance.getEntriesByType('resource')")
    assert [entry["name"] for entry in entries if not entry["name"].startswith(("data:", "blob:"))] == []


def test_text_from_the_cluster_is_escaped(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["evil"])
    for selector in (".pairs .plot", "details[open] .plot"):
        place = drawn(browser, selector)
        ActionChains(browser).move_to_element(place).perform()
    assert browser.execute_script("return window.stolen") is None
    assert browser.find_elements(By.CSS_SELECTOR, "img, main a[href^='http'], svg a") == []
    assert "<img src=x onerror=" in browser.find_element(By.ID, "culprits").text
    ticks = browser.find_elements(By.CSS_SELECTOR, ".pairs .xtick text")
    assert any("gpu1<img src=x" in str(tick.get_attribute("textContent")) for tick in ticks)
    assert "{{ 7 * 7 }}" in browser.page_source
    assert complaints(browser) == []
    assert [url for url in requests(browser) if "://" in url and not url.startswith("file:")] == []


def test_page_with_hundreds_of_nodes_opens_quickly(browser: Chrome, pages: dict[str, Path]) -> None:
    began = time.monotonic()
    opened(browser, pages["many"])
    drawn(browser, "details[open] .plot")
    assert time.monotonic() - began < PATIENCE_S
    assert len(browser.find_elements(By.CSS_SELECTOR, "#table tbody tr")) == 500
    assert len(browser.find_elements(By.CSS_SELECTOR, "details.test")) == 400
    assert len(browser.find_elements(By.CSS_SELECTOR, "svg.main-svg")) < 40


def test_plotly_loads_when_a_figure_becomes_visible(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["many"])
    # The IntersectionObserver has reported all visible figures once a second frame is painted.
    frames = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
    browser.execute_async_script(frames)
    assert browser.execute_script("return typeof Plotly") == "undefined"
    drawn(browser, "details[open] .plot")
    assert browser.execute_script("return typeof Plotly") == "object"
    assert complaints(browser) == []


def test_printing_draws_figures_not_yet_scrolled_to(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["slow"])
    place = browser.find_element(By.CSS_SELECTOR, "#history .plot")
    assert place.find_elements(By.CSS_SELECTOR, "svg.main-svg") == []
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    until(browser, lambda: place.find_elements(By.CSS_SELECTOR, "svg.main-svg"))
    assert complaints(browser) == []


def test_long_table_loads_remaining_rows_on_request(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["many"])
    assert "The first 500 of 600 rows." in browser.find_element(By.ID, "tests").text
    assert "The first 500 of 600 rows." in browser.find_element(By.ID, "history").text
    browser.find_element(By.ID, "filter").send_keys("gpu600")
    shown = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#table tbody tr") if row.is_displayed()]
    assert len(shown) == 1
    assert shown[0].startswith("PASS node-gpu600 node gpu600 472 460 490.3 16 GiB")
    badge = browser.find_element(By.CSS_SELECTOR, "#table tbody tr:last-child .badge")
    assert badge.get_attribute("class") == "badge pass"
    assert len(browser.find_elements(By.CSS_SELECTOR, "#table tbody tr")) == 600
    browser.execute_script("document.querySelector('button.all').click()")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#earlier tbody tr")) == 600
    assert browser.find_elements(By.CSS_SELECTOR, "button.all") == []
    assert complaints(browser) == []


def test_link_in_table_opens_the_curve(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["pairs"])
    browser.execute_script("document.querySelector('#table tbody tr:last-child .c-name a').click()")
    last = browser.find_elements(By.CSS_SELECTOR, "details.test")[-1]
    until(browser, lambda: last.get_attribute("open"))
    until(browser, lambda: last.find_elements(By.CSS_SELECTOR, "path.js-line"))
