"""Tests of the built documentation site in a browser, opened as files, and of its screenshot of a report."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from page_watch import complaints, drawn, opened, requests, until
from selenium.webdriver.common.by import By

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

TOP = Path(__file__).resolve().parents[2]
PICTURE = TOP / "docs" / "report.webp"
MOST_BYTES = 120_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    run = [sys.executable, "-m", "devel.docs_site", str(folder)]
    subprocess.run(run, check=True, timeout=300, env={**os.environ, "PYTHONPATH": str(TOP / "scripts")})
    return folder


def test_pages_load_nothing_from_other_hosts(browser: Chrome, site: Path) -> None:
    for name in ("index.html", "gpus.html", "roles/slurm.html", "alerts.html"):
        opened(browser, site / name)
        assert {url.partition(":")[0] for url in requests(browser)} <= {"file", "data"}
        assert complaints(browser) == []


def test_search_finds_pages_without_a_server(browser: Chrome, site: Path) -> None:
    opened(browser, site / "index.html")
    browser.find_element(By.CSS_SELECTOR, ".sidebar-search").send_keys("mig_layout\n")

    # Search results appear one by one in elements that may be replaced meanwhile.
    def shown() -> list[str]:
        texts: list[str] = browser.execute_script(
            "return [...document.querySelectorAll('#search-results ul.search li a')].map((each) => each.textContent)"
        )
        return texts

    until(browser, lambda: "mig" in shown())
    assert {url.partition(":")[0] for url in requests(browser)} <= {"file", "data"}


def test_picture_of_report_exists_and_is_small(browser: Chrome, pages: dict[str, Path]) -> None:
    """`scripts/docs picture` updates the screenshot by running this test with BUSBAR_PICTURE set to the file."""
    target = os.environ.get("BUSBAR_PICTURE")
    if target:
        opened(browser, pages["slow"])
        drawn(browser, "details.test .plot")
        browser.execute_script("window.scrollTo(0, 0)")
        until(browser, lambda: browser.execute_script("return window.scrollY") == 0)
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": 70})
        Path(target).write_bytes(base64.b64decode(shot["data"]))
    content = PICTURE.read_bytes()
    assert content[8:12] == b"WEBP"
    assert len(content) < MOST_BYTES
