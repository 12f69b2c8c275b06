"""Keeps the report of a validation in a folder; that its pages cannot be drawn never hides the verdict."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["LATEST", "point_to", "save_report", "unwritable"]

LATEST = "latest"


def unwritable(folder: Path) -> str:
    """Return why a folder cannot be made or written, or nothing."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{folder}: {place} is no folder"
    # Permissions say little about root, about a share that maps him to nobody, and about what is no disk.
    try:
        Path(tempfile.mkdtemp(dir=place, prefix=".busbar.")).rmdir()
    except OSError as exc:
        return f"{folder}: {place} cannot be written by this user: {exc.strerror or exc}"
    return ""


def save_report(folder: Path, report: Mapping[str, Any], nodes: Collection[str]) -> dict[str, Any]:
    """Write a report and its pages into a folder that is made when it is not there.

    Args:
        folder: its name tells the time of the report.
        report: as validation.verdicts.report gives it.
        nodes: those that the cluster has, for the metrics.

    Returns:
        ``metrics``, the path of those for Prometheus or nothing, ``pages_problem``, what went wrong with the pages or
        nothing, and ``incomplete``, whether it was the disk that did not take them.

    Raises:
        OSError: the report itself cannot be written.
    """
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    # What a node printed may be no text at all.
    raw = f"{json.dumps(report, indent=2)}\n".encode(errors="surrogateescape")
    (folder / "report.json").write_bytes(raw)
    (folder / "report.json").chmod(0o644)
    done: dict[str, Any] = {"metrics": "", "pages_problem": "", "incomplete": False}
    try:
        from .report_files import METRICS, write_pages  # noqa: PLC0415 - a library may be missing

        # The metrics are written before the page that may not be drawn.
        done["metrics"] = str(folder / METRICS)
        write_pages(folder, nodes, raw)
    except Exception as exc:  # noqa: BLE001 - see above
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else f"{type(exc).__name__}: {exc}"
        done["pages_problem"] = f"the pages of the report could not be written to {folder}: {reason}"
        # A missing library is the choice of whoever runs this; a full disk leaves a report that nobody can read.
        done["incomplete"] = isinstance(exc, OSError)
    if done["metrics"] and not Path(done["metrics"]).is_file():
        done["metrics"] = ""
    return done


def point_to(folder: Path) -> str:
    """Let the link ``latest`` beside a folder lead to it; returns why it does not, empty when it does."""
    link, fresh = folder.parent / LATEST, folder.parent / f".{LATEST}.{folder.name}"
    try:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        fresh.symlink_to(folder.name)
        fresh.replace(link)
    except OSError as exc:
        with contextlib.suppress(OSError):
            fresh.unlink()
        return f"{link} does not lead to this report: {exc.strerror or exc}"
    return ""
