"""Judges and shows a validation of many nodes: each alone, then pairs, as many as make up the number of tests.

The outputs of nccl-tests are written beforehand. A process of its own reads and judges them, and writes the report's
pages, as the role does, and measures itself; then Chromium opens the page, where it is installed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.report_files import write_pages
from busbar.errors import UsageError
from busbar.option_values import whole
from busbar.paths import collection

from devel.measured import Figure, Goal, Needs, peak_kib

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["CHART", "GOALS", "add_options", "measure", "needs"]

GOALS = (Goal("cpu", "<=", 20), Goal("page", "<=", 15), Goal("opens", "<=", 3))
CHART = None

_CHROMIUM, _DRIVER = "chromium", "chromedriver"
_MOST = 10_000
_MOST_TESTS = 1_000_000


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be chosen."""
    parser.add_argument("--nodes", default="1000", metavar="N", help="default 1000")
    parser.add_argument("--tests", default="10000", metavar="N", help="default 10000, at least one for each node")
    parser.add_argument("--no-browser", action="store_true", help="do not open the page in Chromium")


def needs(args: argparse.Namespace) -> Needs:
    """What this size takes."""
    _nodes, tests = _size(args)
    return Needs(memory_mib=500 + tests // 10, disk_mib=100 + tests // 100, smaller="--tests")


def _size(args: argparse.Namespace) -> tuple[int, int]:
    nodes = whole("--nodes", args.nodes, 2, _MOST)
    most = min(_MOST_TESTS, nodes + nodes * (nodes - 1) // 2)
    return nodes, whole("--tests", args.tests, nodes, most)


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """The figures of one report.

    Raises:
        UsageError: a number is none, or Chromium is missing.
        ValueError: the report does not tell of all tests.
    """
    nodes, tests = _size(args)
    browser = not args.no_browser
    if browser and not all(map(shutil.which, (_CHROMIUM, _DRIVER))):
        message = "Chromium is not installed: run scripts/setup --test, or add --no-browser"
        raise UsageError(message)
    with tempfile.TemporaryDirectory(prefix="busbar-benchmark-") as name:
        folder = Path(name) / "20261120T080000Z"
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(folder), str(nodes), str(tests)], check=False, stdout=subprocess.PIPE
        )
        if done.returncode:
            message = f"the process that writes the report ended with code {done.returncode}"
            raise ValueError(message)
        answer: dict[str, Any] = json.loads(done.stdout)
        yield Figure("judge_cpu", round(answer["judge_cpu"], 2), "s")
        yield Figure("pages_cpu", round(answer["pages_cpu"], 2), "s")
        yield Figure("cpu", round(answer["judge_cpu"] + answer["pages_cpu"], 2), "s")
        yield Figure("wall", round(answer["wall"], 2), "s")
        yield Figure("peak_memory", round(answer["peak_kib"] / 1024), "MiB")
        for figure, file in (("json", "report.json"), ("page", "report.html"), ("junit", "junit.xml")):
            yield Figure(figure, round((folder / file).stat().st_size / 1e6, 2), "MB")
        if answer["tests"] != tests:
            message = f"the report tells of {answer['tests']} of {tests} tests"
            raise ValueError(message)
        if browser:
            opens, used = _opens(folder / "report.html", Path(name))
            yield Figure("opens", round(opens, 2), "s")
            yield Figure("opens_cpu", round(used, 2), "s")


def _opens(page: Path, scratch: Path) -> tuple[float, float]:
    """Seconds until Chromium has read a page and painted it, and CPU time of the thread that does so."""
    from selenium import webdriver  # noqa: PLC0415 - a tool of the tests
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which(_CHROMIUM) or _CHROMIUM
    for option in ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={scratch / 'chromium'}"):
        options.add_argument(option)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which(_DRIVER)))
    try:
        driver.get("about:blank")
        driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        began = time.monotonic()
        driver.get(page.as_uri())
        driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
        )
        took = time.monotonic() - began
        told = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        used = next(metric["value"] for metric in told if metric["name"] == "TaskDuration")
        if not driver.title.startswith("PASS"):
            message = f"the page is titled {driver.title!r}"
            raise ValueError(message)
    finally:
        driver.quit()
    return took, used


def _tests(nodes: int, tests: int) -> list[dict[str, Any]]:
    """Each node alone, then rounds of pairs in which each node has another partner."""
    names = [f"gpu{number:05}" for number in range(1, nodes + 1)]
    found = [{"name": f"node-{name}", "stage": "node", "nodes": [name], "peak": 472.0} for name in names]
    for distance in range(1, nodes):
        for place in range(nodes - distance):
            if len(found) == tests:
                return found
            pair = [names[place], names[place + distance]]
            found.append({"name": "pair-" + "-".join(pair), "stage": "pair", "nodes": pair, "peak": 366.0})
    return found


def _write(folder: Path, nodes: int, tests: int) -> None:
    """Make a report and its pages in a folder, and print what that took."""
    sys.path.insert(0, str(collection() / "tests/fixtures"))
    import report_samples  # noqa: PLC0415 - of the tests

    planned = _tests(nodes, tests)
    texts: dict[int, str] = {}
    for test in planned:
        # All outputs are alike but for the names, which are of one length.
        alike = texts.setdefault(
            len(test["nodes"]),
            report_samples.FABRIC
            + report_samples.nccl_text(["node_a", "node_b"][: len(test["nodes"])], 8, test["peak"]),
        )
        for stand_in, name in zip(("    node_a", "    node_b"), test["nodes"], strict=False):
            alike = alike.replace(stand_in, f"{name:>10}")
        test["text"] = alike
    began, used = time.monotonic(), time.process_time()
    report = report_samples.validation(planned)
    judged = time.process_time()
    raw = json.dumps(report).encode()
    (folder / "report.json").write_bytes(raw)
    write_pages(folder, raw=raw)
    answer = {
        "judge_cpu": judged - used,
        "pages_cpu": time.process_time() - judged,
        "wall": time.monotonic() - began,
        "peak_kib": peak_kib(),
        "tests": len(report["tests"]),
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    _write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
