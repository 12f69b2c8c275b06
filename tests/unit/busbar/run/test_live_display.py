"""What a terminal shows while a playbook runs."""

from __future__ import annotations

import io
import re
from typing import Any

from busbar.run.display import LiveDisplay
from busbar.run.events import Run
from rich.console import Console


def result(kind: str, host: str, **res: object) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "task": "Install", "role": "slurm", "res": res}}


def start(name: str) -> dict[str, Any]:
    data = {"task": f"busbar.cluster.slurm : {name}", "role": "busbar.cluster.slurm"}
    return {"event": "playbook_on_task_start", "event_data": data}


def test_hosts_are_counted_below_and_what_changed_or_failed_stays_above() -> None:
    terminal = io.StringIO()
    ticks = iter(range(100))
    with LiveDisplay(Console(file=terminal, force_terminal=True, width=100)) as display:
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
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    assert "Slurm [all] (3 hosts)" in shown
    assert re.search(r"slurm : Wait .* 2/3 hosts", shown)
    kept = [line.strip() for line in shown.splitlines() if "=" in line]
    assert kept == ["1.0 s  slurm : Write  changed=1", "1.0 s  slurm : Start [slurmd]  failed=1"]
    # The cursor, which was hidden, is there again.
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l")
