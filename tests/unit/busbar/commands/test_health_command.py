"""Tests of the output and exit codes of `busbar health`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from busbar.cli import main
from busbar.run import site as site_module

if TYPE_CHECKING:
    from pathlib import Path

    from busbar.run.events import Run
    from busbar.run.playbook import Playbook


def answer(*findings: tuple[str, str, str], **unknown: str) -> str:
    """Return the output of a node with severity, check and value of each finding."""
    keys = ("severity", "check", "value")
    found = [dict(zip(keys, each, strict=True), problem="it is so", remedy="type this") for each in findings]
    return json.dumps({"findings": found, "unknown": unknown})


@pytest.mark.parametrize(
    ("answers", "returned", "code", "lines"),
    [
        ({"gpu2": answer(), "gpu1": answer()}, 0, 0, ["gpu1: healthy", "gpu2: healthy"]),
        (
            {"gpu1": answer(("RESET", "pcie_replays", "GPU 3"), ("MONITOR", "swap", ""))},
            *(0, 1),
            [
                "gpu1: RESET pcie_replays: it is so [GPU 3]",
                "    type this",
                "gpu1: MONITOR swap: it is so",
                "    type this",
            ],
        ),
        (
            {"gpu1": answer(("MONITOR", "swap", ""), clock="no answer")},
            *(0, 0),
            ["gpu1: MONITOR swap: it is so", "    type this", "gpu1: unknown: clock: no answer"],
        ),
        ({"gpu1": answer()}, 4, 3, ["gpu1: healthy"]),
        ({"gpu1": "Traceback"}, 0, 3, ["gpu1: the output of the health check is not valid JSON: Traceback"]),
        ({}, 0, 3, []),
    ],
)
def test_findings_and_exit_codes(  # noqa: PLR0913, PLR0917 - a table
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    answers: dict[str, str],
    returned: int,
    code: int,
    lines: list[str],
) -> None:
    (tmp_path / "hosts.yml").write_text("slurm_compute: {hosts: {gpu1: , gpu2: }}\n")

    def fake(playbook: Playbook, run: Run, log: Path) -> tuple[int, bool]:
        assert (playbook.path.name, log.parent.name) == ("health.yml", "logs")
        assert playbook.options == ["--limit", "gpu1,gpu2"]
        run.tasks, run.custom = 3, {"busbar_health": answers}
        return returned, False

    monkeypatch.setattr(site_module, "run_playbook", fake)
    assert main(["health", "gpu[1-2]", "-i", str(tmp_path / "hosts.yml")]) == code
    assert capsys.readouterr().out.splitlines() == lines
