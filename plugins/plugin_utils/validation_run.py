"""Run a validation through a transport, and always write its report."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, Protocol, cast

from .engine.report.history import last_results
from .engine.validation.cluster_access import Interrupted, Transport
from .engine.validation.nccl_judge import INCONCLUSIVE, PASS
from .engine.validation.resume_nodes import not_admitted, passed_nodes, released_nodes
from .engine.validation.validation_loop import Loop
from .engine.validation.validation_report import broken_report, report, summary_lines
from .report_folder import save_report

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .engine.validation.validation_types import Report
    from .interruption import Interruption

# Time for cancelled jobs to end. An interrupted run is killed after a longer time.
_RELEASE_S = 20


class ClusterTransport(Transport, Protocol):
    """A transport that also changes nodes in Slurm.

    Attributes:
        interruption: handler of the signals that stop the validation.
    """

    interruption: Interruption

    def update_node(self, node: str, *words: str) -> str:
        """Run ``scontrol update`` for a node; return the error, or '' on success."""


def run_validation(
    options: dict[str, Any], transport: ClusterTransport, folder: Path, left_out: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a validation and write its report.

    Args:
        options: options of the validation, which may be untyped.
        transport: runs the jobs.
        folder: folder of the report; earlier reports are next to it.
        left_out: nodes that cannot be tested, with the reason.

    Returns:
        The result of the `validation` action.
    """
    options = options | {"last_results": _last_results(options, folder)}
    if int(options["partners"]) and not any(options["last_results"].values()):
        transport.report_progress(
            f"no node passed in an earlier report next to {folder}, so the partners are not verified"
        )
    loop = Loop(options, transport)
    loop.state = {**loop.state, "left_out": dict(left_out or {})}
    broken: BaseException | None = None
    with transport.interruption:
        try:
            loop.run()
        except BaseException as exc:  # noqa: BLE001 - a report must always be written
            broken = exc
        # Write the report before another interruption can arrive.
        with contextlib.suppress(Interrupted), transport.uninterrupted():
            done = _reported(loop, transport, folder, broken)
    if broken is not None and not isinstance(broken, Exception) and not transport.interruption.why:
        raise broken
    return done


def _reported(loop: Loop, transport: ClusterTransport, folder: Path, broken: BaseException | None) -> dict[str, Any]:
    """Write the report, drain and resume nodes, and return the result of the validation."""
    why = transport.interruption.why or (f"{type(broken).__name__}: {broken}" if broken is not None else "")
    data = _against_history(_report(loop, why), loop, folder)
    blamed = data.get("culprits", [])
    passed = [] if why else passed_nodes(loop.state, data, blamed)
    opened = released_nodes(loop.options, loop.state, passed)
    if why and data["drain"]["nodes"]:
        data["drain"] = {"nodes": [], "refused": f"no node was drained: {why}"}
    elif not why:
        data["drain"]["nodes"] += not_admitted(loop.state, data, blamed, opened)
    done = [
        {
            "node": item["node"],
            "problem": transport.update_node(item["node"], "state=drain", f"reason={item['reason']}"),
        }
        for item in data["drain"]["nodes"]
    ]
    data["drain"]["done"] = done
    _released(loop, transport, data, opened)
    result = {
        "changed": any(not item["problem"] for item in [*done, *data["resumed"]]),
        "verdict": data["verdict"],
        "reason": data["reason"],
        "busy_allowed": data["busy_allowed"],
        "not_tested": data["not_tested"],
        "passed": passed,
        "lines": summary_lines(data),
        "folder": "",
    }
    try:
        pages = save_report(folder, data, loop.options["pool"])
    except OSError as exc:
        problem = f"the report could not be written: {exc}"
        return result | {"metrics": "", "pages_problem": "", "incomplete": False, "problem": problem}
    return result | pages | {"folder": str(folder), "problem": ""}


def _last_results(options: dict[str, Any], folder: Path) -> dict[str, bool]:
    """Return whether each node passed in the newest report that judged it."""
    with contextlib.suppress(OSError, ImportError):
        from .report_files import history  # noqa: PLC0415 - libraries may be missing

        return last_results(history(folder), options["hardware"], options["cluster"])
    return {}


def free_folder(place: Path, name: str) -> Path:
    """Return the path of a new folder: NAME, or NAME with a number if it exists."""
    names = (name, *(f"{name}-{number}" for number in range(2, 100)))
    return place / next((name for name in names if not (place / name).exists()), name)


def _report(loop: Loop, why: str) -> Report:
    """Return the report, or a minimal one if it cannot be created."""
    state, stopped = loop.state, why or loop.stopped
    if loop.unended:
        left = f"could not be cancelled: scancel {' '.join(loop.unended)}"
        stopped = f"{stopped}; {left}" if stopped else left
    if why:
        state = {**state, "problem": stopped}
    try:
        return report(loop.options, state, stopped)
    except Exception as exc:  # noqa: BLE001 - see above
        return broken_report(loop.options, state, why or f"{type(exc).__name__}: {exc}")


def _against_history(data: Report, loop: Loop, folder: Path) -> Report:
    """Return the report with drift findings, or unchanged if earlier reports cannot be read."""
    how = loop.options["drift"]
    if how == "ignore":
        return data
    try:
        from .engine.report.drift import with_drift  # noqa: PLC0415 - a library may be missing
        from .engine.report.report_reader import normalised  # noqa: PLC0415
        from .report_files import history  # noqa: PLC0415

        read = normalised(json.loads(json.dumps(data)))
        return cast("Report", with_drift(dict(data), read, history(folder) if folder.parent.is_dir() else [], how))
    except Exception as exc:  # noqa: BLE001 - a report must always be written
        why = f"the values could not be compared with earlier reports: {type(exc).__name__}: {exc}"
        loop.transport.report_progress(why)
        if how == "fail" and data["verdict"] == PASS:
            return {**data, "verdict": INCONCLUSIVE, "reason": why}
        return data


def _released(loop: Loop, transport: ClusterTransport, data: Report, nodes: list[str]) -> None:
    """Delete the reservation of the tests, resume the drained nodes that passed, and record the results.

    The tests drain these nodes again when they end, so the nodes stay drained if this step fails.
    """
    left = loop.release(_RELEASE_S)
    data["leftovers"] = [f"{node} {words}" for node, words in loop.unrestored.items()] + [left] * bool(left)
    data["resumed"] = [{"node": node, "problem": transport.update_node(node, "state=resume")} for node in nodes]
