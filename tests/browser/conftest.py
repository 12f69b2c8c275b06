"""Fixtures of the browser tests: a Chromium and report pages."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.report_files import write_pages
from check_samples import checked
from report_samples import EVIL, nccl_text, of_pairs, small, validation, with_node_changes
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from storage_samples import edit, stored
from training_samples import trained

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Return one browser for all tests; each test opens its own page."""
    if shutil.which(CHROMIUM) is None or shutil.which(DRIVER) is None:
        pytest.skip("no Chromium here: install chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def evil() -> dict[str, Any]:
    """Return a report whose texts from the cluster try to inject HTML, scripts and templates."""
    name = f"gpu1{EVIL}</script><script>window.stolen=2</script><a href='https://example.com/'>x</a>"
    report = of_pairs(3)
    report["tests"].append({**small()["tests"][0], "name": name, "nodes": [name], "tail": [name, "{{ 7 * 7 }}"]})
    for test in report["tests"][:2]:
        test["nodes"] = [name, test["nodes"][1]]
        test["reason"] = test["source"] = test["hardware"] = name
        test["findings"] = [name]
    report["culprits"] = [{"kind": name, "nodes": [name], "reason": name}]
    report["suspected"] = report["unresolved"] = [{"nodes": [name], "reason": name}]
    report |= {"held": {name: name}, "held_by": {name: name}, "leftovers": [name]}
    report |= {"resumed": [{"node": name, "problem": name}], "drain": {"done": [{"node": name, "problem": name}]}}
    return {**report, "cluster": name, "reason": name, "left_out": {name: name}, "node_reasons": [name]}


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the pages of several reports by name."""
    place = tmp_path_factory.mktemp("reports")
    old = [small(f"2026-11-{day}T08:00:00Z") for day in range(10, 15)]
    hosts = [f"gpu{number}" for number in range(1, 601)]
    text = nccl_text(["gpu1"], 8, 472.0)
    many = validation(
        [
            {"name": f"node-{host}", "stage": "node", "nodes": [host], "text": text.replace(" gpu1 ", f" {host} ")}
            for host in hosts
        ],
        started="2026-11-23T00:00:00Z",
    )
    named = {
        "slow": small("2026-11-20T08:00:00Z", slow=0.5) | with_node_changes(),
        "pairs": of_pairs(12, slow="gpu7", started="2026-11-21T08:00:00Z"),
        "evil": {**evil(), "started": "2026-11-22T08:00:00Z"},
        "many": many,
        "checks": checked("2026-11-24T08:00:00Z", words=f"GPU 5 had {EVIL} errors"),
        "storage": {**stored(edit("speed-read", "gpu2", rate=50_000_000)), "started": "2026-11-25T08:00:00Z"},
        "training": {**trained(shared=0.8), "started": "2026-11-26T08:00:00Z"},
    }
    found = {}
    for name, report in [*(("", report) for report in old), *named.items()]:
        folder = place / report["started"].replace("-", "").replace(":", "")
        folder.mkdir()
        (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
        if name:
            write_pages(folder)
            found[name] = folder / "report.html"
    return found
