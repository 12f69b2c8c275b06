"""Tests of bandwidth matrices and single-node diagnoses on the report page in a browser."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from page_watch import complaints, drawn, hovered, opened, requests, says, until
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

if TYPE_CHECKING:
    from pathlib import Path

    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement


def card(browser: Chrome, name: str) -> WebElement:
    """Return the card of a check."""
    cards = browser.find_elements(By.CSS_SELECTOR, "#checks details.test")
    return next(item for item in cards if item.find_element(By.TAG_NAME, "strong").text == name)


def matrix(browser: Chrome, name: str, number: int) -> WebElement:
    """Return a drawn matrix of a check by index."""
    item = card(browser, name)
    browser.execute_script("arguments[0].open = true", item)
    place = item.find_elements(By.CSS_SELECTOR, ".plot.matrix")[number]
    return drawn(browser, f".plot[data-figure='{place.get_attribute('data-figure')}']")


def test_slow_pair_is_framed_and_its_cell_shows_the_value(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["checks"])
    place = matrix(browser, "p2p-gpu2", 1)
    until(browser, lambda: place.find_elements(By.CSS_SELECTOR, ".heatmap-label text"))
    written = [item.text for item in place.find_elements(By.CSS_SELECTOR, ".heatmap-label text")]
    assert sorted(set(written)) == ["126", "380", "741"]
    assert len(written) == 64
    frames = place.find_elements(By.CSS_SELECTOR, ".shapelayer path")
    assert len(frames) == 1
    area = place.find_element(By.CSS_SELECTOR, ".nsewdrag").rect
    frame = frames[0].rect
    column, row = (
        (frame[way] + frame[size] / 2 - area[way]) / area[size] * 8 for way, size in (("x", "width"), ("y", "height"))
    )
    assert (int(column), int(row)) == (6, 2)
    titles = [item.text for item in card(browser, "p2p-gpu2").find_elements(By.TAG_NAME, "h3")]
    assert titles[1] == "unidirectional, P2P enabled, GB/s"
    assert complaints(browser) == []


def test_hovering_a_cell_shows_its_gpus(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["checks"])
    place = matrix(browser, "p2p-gpu2", 1)
    area = place.find_element(By.CSS_SELECTOR, ".nsewdrag")
    across, down = area.rect["width"] * (6.5 / 8 - 0.5), area.rect["height"] * (2.5 / 8 - 0.5)
    ActionChains(browser).move_to_element_with_offset(area, int(across), int(down)).perform()
    until(browser, partial(says, place, "126 GB/s"))
    assert "GPU 2, GPU 6" in hovered(place)


def test_culprits_and_table_name_the_check(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["checks"])
    culprits = browser.find_element(By.ID, "culprits").text
    assert "p2p-gpu2: gpu2: GPU 2 and GPU 6: 126 GB/s" in culprits
    assert "dcgm_diag-gpu3: gpu3: memory of GPU 5 failed" in culprits
    names = [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "#table tbody td.c-name")]
    assert {f"{kind}-gpu{n}" for kind in ("p2p", "nvbandwidth", "dcgm_diag") for n in range(1, 5)} <= set(names)
    assert "p2p" in browser.find_element(By.ID, "limits").text


def test_diagnosis_table_lists_failures_first(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["checks"])
    item = card(browser, "dcgm_diag-gpu3")
    browser.execute_script("arguments[0].open = true; arguments[0].scrollIntoView()", item)
    table = item.find_element(By.CSS_SELECTOR, "table.diagnosis")
    rows = [row.text.split("\n")[0] for row in table.find_elements(By.CSS_SELECTOR, "tbody tr")]
    assert rows[0].startswith("fail memory GPU 5 Hardware GPU 5 had <img src=x")
    assert [row.split()[0] for row in rows] == ["fail", "skip", "pass"]
    button = table.find_elements(By.CSS_SELECTOR, "th button")[1]
    button.click()
    tests = [row.find_elements(By.TAG_NAME, "td")[1].text for row in table.find_elements(By.CSS_SELECTOR, "tbody tr")]
    assert tests == ["eud", "memory", "memory"]
    assert browser.execute_script("return window.stolen") is None


@pytest.mark.parametrize("name", ["p2p-gpu2", "nvbandwidth-gpu1", "dcgm_diag-gpu3"])
def test_checks_fit_a_phone(browser: Chrome, pages: dict[str, Path], name: str) -> None:
    opened(browser, pages["checks"], width=360, height=740)
    item = card(browser, name)
    browser.execute_script("arguments[0].open = true; arguments[0].scrollIntoView()", item)
    if item.find_elements(By.CSS_SELECTOR, ".plot"):
        matrix(browser, name, 0)
    width, inner = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert width <= inner == 360
    assert [url for url in requests(browser) if "://" in url and not url.startswith("file:")] == []
