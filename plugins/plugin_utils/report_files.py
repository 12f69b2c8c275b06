"""Read validation reports from their folders, and write the HTML, JUnit and Prometheus files next to them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from plotly.offline import get_plotlyjs

from .engine.report.html_page import page
from .engine.report.junit import junit
from .engine.report.metrics import metrics
from .engine.report.report_reader import normalised

if TYPE_CHECKING:
    from collections.abc import Collection

    from .engine.report.report_types import ReadReport

METRICS = "busbar.prom"
FILES = ("junit.xml", METRICS, "report.html")
# Prefix of the report folders of `busbar prove`.
PROVE_PREFIX = "busbar-report-"
_NAME = "report.json"
_MOST = 50


def read_report(folder: Path) -> ReadReport:
    """Return the normalised report of a folder.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not a report.
    """
    return _normalised(folder, (folder / _NAME).read_bytes())


def _normalised(folder: Path, raw: bytes) -> ReadReport:
    try:
        return normalised(_decoded(raw))
    except ValueError as exc:
        message = f"{folder / _NAME}: {exc}"
        raise ValueError(message) from exc


def raw_report(folder: Path) -> object:
    """Return the content of report.json in a folder; non-finite numbers become None.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not JSON.
    """
    return _decoded((folder / _NAME).read_bytes())


def _decoded(raw: bytes) -> object:
    try:
        return json.loads(raw, parse_constant=lambda _word: None)
    except (ValueError, RecursionError) as exc:
        message = f"is not JSON: {exc}"
        raise ValueError(message) from exc


def folders(place: Path) -> list[Path]:
    """Return the folders of all reports, oldest first, without the link `latest`.

    Raises:
        OSError: if the directory cannot be read.
    """
    return sorted((path for path in place.iterdir() if not path.is_symlink() and is_report(path)), key=_order)


def is_report(folder: Path) -> bool:
    """Return whether a folder contains a report; a folder that this user cannot search, such as in /tmp, does not."""
    try:
        return (folder / _NAME).is_file()
    except PermissionError:
        return False


def _order(folder: Path) -> tuple[bool, str]:
    """Return the sort key of a report folder: its time stamp; folders with another name, such as copies, come first."""
    stamp = folder.name.removeprefix(PROVE_PREFIX)
    return stamp[:1].isdigit(), stamp


def history(folder: Path) -> list[ReadReport]:
    """Return up to _MOST reports before the one in a folder; unreadable ones are skipped."""
    found = []
    for path in [path for path in folders(folder.parent) if _order(path) < _order(folder)][-_MOST:]:
        with contextlib.suppress(OSError, ValueError):
            found.append(read_report(path))
    return found


def write_pages(folder: Path, nodes: Collection[str] | None = None, raw: bytes | None = None) -> list[Path]:
    """Write report.html, junit.xml and busbar.prom next to report.json, each atomically.

    Args:
        folder: the folder of report.json.
        nodes: nodes of the cluster, for the metrics; None includes all nodes of the recent reports.
        raw: the content of report.json; None reads the file.

    Returns:
        The paths written.

    Raises:
        OSError: if a file cannot be read or written.
        ValueError: if report.json is not a report.
    """
    folder = folder.resolve()
    raw = (folder / _NAME).read_bytes() if raw is None else raw
    report, earlier = _normalised(folder, raw), history(folder)
    _write(folder / "junit.xml", junit(report))
    _write(folder / METRICS, metrics(report, earlier, nodes))
    _write(folder / "report.html", page(report, earlier, get_plotlyjs(), hashlib.sha256(raw).hexdigest()))
    return [folder / name for name in FILES]


def _write(path: Path, text: str) -> None:
    """Write a world-readable file atomically."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    fresh = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        fresh.chmod(0o644)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
