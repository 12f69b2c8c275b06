"""Tests of the shared storage section on the report page in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from page_watch import complaints, drawn, opened, requests
from selenium.webdriver.common.by import By

if TYPE_CHECKING:
    from pathlib import Path

    from selenium.webdriver import Chrome


def test_each_node_has_bars_and_a_row(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["storage"])
    card = browser.find_element(By.CSS_SELECTOR, "#stage-storage details.test")
    place = card.find_element(By.CSS_SELECTOR, ".plot")
    figure = drawn(browser, f".plot[data-figure='{place.get_attribute('data-figure')}']")
    assert len(figure.find_elements(By.CSS_SELECTOR, ".bars path")) == 6
    labels = sorted(figure.find_elements(By.CSS_SELECTOR, ".ytick text"), key=lambda item: item.rect["y"])
    assert [item.text for item in labels] == ["gpu2", "gpu1", "gpu3"]
    rows = card.find_elements(By.CSS_SELECTOR, "tbody tr")
    assert [row.find_elements(By.TAG_NAME, "td")[1].text for row in rows] == ["gpu1", "gpu2", "gpu3"]
    assert "nfs4 ctl:/export on /shared" in rows[0].text
    assert browser.find_elements(By.CSS_SELECTOR, "#checks") == []
    assert complaints(browser) == []
    assert requests(browser) == [pages["storage"].as_uri()]


def test_table_sorts_by_rate(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["storage"])
    card = browser.find_element(By.CSS_SELECTOR, "#stage-storage details.test")
    button = card.find_elements(By.CSS_SELECTOR, "thead button")[4]
    firsts = []
    for _ in range(2):
        button.click()
        firsts.append(card.find_elements(By.CSS_SELECTOR, "tbody tr")[0].find_elements(By.TAG_NAME, "td")[1].text)
    assert "gpu2" in firsts
