"""Tests of the terminal display during a playbook run."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from busbar.run.display import Display
from busbar.run.events import Run

if TYPE_CHECKING:
    import pytest


def result(kind: str, host: str, **res: object) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "task": "Install", "role": "slurm", "res": res}}


def start(name: str) -> dict[str, Any]:
    data = {"task": f"busbar.cluster.slurm : {name}", "role": "busbar.cluster.slurm"}
    return {"event": "playbook_on_task_start", "event_data": data}


class Terminal(io.StringIO):
    """A stream that reports to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def test_status_line_counts_hosts_and_changed_or_failed_tasks_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    ticks = iter(range(100))
    with Display(terminal) as display:
        run = Run(display, lambda _pattern: 3, lambda: float(next(ticks)))
        events: list[dict[str, Any]] = [
            {"event": "playbook_on_play_start", "event_data": {"name": "Slurm [all]", "pattern": "all"}},
            start("Install"),
            *(result("runner_on_ok", host) for host in ("ctl", "gpu1", "gpu2")),
            start("Write"),
            result("runner_on_ok", "gpu1", changed=True),
            start("Start [slurmd]"),
            result("runner_on_failed", "gpu2", msg="no such unit"),
            start("Wait"),
            *(result("runner_on_ok", host) for host in ("ctl", "gpu1")),
        ]
        for event in events:
            run.handle(event)
    assert "\x1b[31m   1.0 s  slurm : Start [slurmd]  failed=1\x1b[0m\n" in terminal.getvalue()
    # The next line overwrites each status line.
    lines = [line.split("\r")[-1] for line in terminal.getvalue().split("\n")]
    kept = [re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", line) for line in lines]
    assert kept == [
        "PLAY Slurm [all] (3 hosts)",
        "   1.0 s  slurm : Write  changed=1",
        "   1.0 s  slurm : Start [slurmd]  failed=1",
        "",
    ]
    assert re.search(r" s  slurm : Wait  2/3 hosts", terminal.getvalue())


def test_a_status_line_is_cut_at_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    with Display(terminal) as display:
        Run(display, lambda _pattern: 3).handle(start("Install"))
    assert max(len(part.removeprefix("\x1b[K")) for part in terminal.getvalue().split("\r")) == 19
