"""Save a validation report in a folder. Errors while writing its pages do not affect the report."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LATEST = "latest"


def unwritable(folder: Path) -> str:
    """Return why a folder cannot be created or written, or ''."""
    place = folder.absolute()
    try:
        while not place.exists() and place != place.parent:
            place = place.parent
        if not place.is_dir():
            return f"{folder}: {place} is not a folder"
    except PermissionError as exc:
        return f"{folder}: {place} is not accessible: {exc.strerror or exc}"
    # Try to write, because permission bits are not reliable for root, with root_squash and on pseudo file systems.
    try:
        Path(tempfile.mkdtemp(dir=place, prefix=".busbar.")).rmdir()
    except OSError as exc:
        return f"{folder}: {place} is not writable: {exc.strerror or exc}"
    return ""


def save_report(folder: Path, report: Mapping[str, Any], nodes: Collection[str]) -> dict[str, Any]:
    """Write a report and its pages into a folder, which is created if needed.

    Args:
        folder: named after the report's time.
        report: the report.
        nodes: nodes of the cluster, for the metrics.

    Returns:
        ``metrics``, the path of the Prometheus file or ''; ``pages_problem``, the error while writing the pages or '';
        and ``incomplete``, whether it was a disk error.

    Raises:
        OSError: if the report itself cannot be written.
    """
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    # Node output may not be valid UTF-8.
    raw = f"{json.dumps(report, indent=2)}\n".encode(errors="surrogateescape")
    fresh = folder / ".report.json"
    try:
        fresh.write_bytes(raw)
        fresh.chmod(0o644)
        fresh.replace(folder / "report.json")
    finally:
        fresh.unlink(missing_ok=True)
    done: dict[str, Any] = {"metrics": "", "pages_problem": "", "incomplete": False}
    try:
        from .report_files import METRICS, write_pages  # noqa: PLC0415 - libraries may be missing

        # The metrics were written before the page, which may have failed.
        done["metrics"] = str(folder / METRICS)
        write_pages(folder, nodes, raw)
    except Exception as exc:  # noqa: BLE001 - see above
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else f"{type(exc).__name__}: {exc}"
        done["pages_problem"] = f"the pages of the report could not be written to {folder}: {reason}"
        # A missing library may be intentional, but after a disk error the report may be unreadable.
        done["incomplete"] = isinstance(exc, OSError)
    if done["metrics"] and not Path(done["metrics"]).is_file():
        done["metrics"] = ""
    return done


def point_to(folder: Path) -> str:
    """Set the link ``latest`` next to a folder to it; return the error, or '' on success."""
    link, fresh = folder.parent / LATEST, folder.parent / f".{LATEST}.{folder.name}"
    try:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        fresh.symlink_to(folder.name)
        fresh.replace(link)
    except OSError as exc:
        with contextlib.suppress(OSError):
            fresh.unlink()
        return f"{link} could not be linked to this report: {exc.strerror or exc}"
    return ""
