"""Tests of the training section on the report page in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from page_watch import complaints, drawn, opened, requests
from selenium.webdriver.common.by import By

if TYPE_CHECKING:
    from pathlib import Path

    from selenium.webdriver import Chrome


def test_each_scale_has_bars_and_a_row(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["training"])
    card = browser.find_element(By.CSS_SELECTOR, "#stage-training details.test")
    assert "network-bound: all-reduce takes" in card.text
    place = card.find_element(By.CSS_SELECTOR, ".plot")
    figure = drawn(browser, f".plot[data-figure='{place.get_attribute('data-figure')}']")
    assert len(figure.find_elements(By.CSS_SELECTOR, ".bars path")) == 6
    labels = sorted(figure.find_elements(By.CSS_SELECTOR, ".xtick text"), key=lambda item: item.rect["x"])
    assert [item.text for item in labels] == ["1 GPU", "2 nodes", "4 nodes"]
    cells = [
        [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
        for row in card.find_elements(By.CSS_SELECTOR, "tbody tr")
    ]
    assert [row[:2] for row in cells] == [["1 GPU", "1"], ["2 nodes", "2"], ["4 nodes", "4"]]
    assert cells[2][4:10] == ["7.692", "1300", "100", "1200", "92.31", "communication"]
    assert cells[2][10:13] == ["80", "0", "2.016e+05"]
    assert browser.find_elements(By.CSS_SELECTOR, "#checks") == []
    assert complaints(browser) == []
    assert requests(browser) == [pages["training"].as_uri()]


def test_table_sorts_by_efficiency(browser: Chrome, pages: dict[str, Path]) -> None:
    opened(browser, pages["training"])
    card = browser.find_element(By.CSS_SELECTOR, "#stage-training details.test")
    card.find_elements(By.CSS_SELECTOR, "thead button")[4].click()
    rows = card.find_elements(By.CSS_SELECTOR, "tbody tr")
    assert [row.find_elements(By.TAG_NAME, "td")[0].text for row in rows] == ["4 nodes", "2 nodes", "1 GPU"]
