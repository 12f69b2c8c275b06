"""What a killed run has left is said where `busbar provision` shows it, too: among the warnings."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.callback.run_guard import CallbackModule

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Screen:
    """Ansible's display; lines that are merely displayed reach the log alone."""

    def __init__(self) -> None:
        """Have nothing shown yet."""
        self.warnings: list[str] = []

    def warning(self, text: str) -> None:
        """Take a warning."""
        self.warnings.append(text)


def test_the_lock_of_a_killed_run_is_taken_over_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atexit.register", lambda _: None)
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/hosts.yml").write_text("all: {}\n")
    holder = {"host": socket.gethostname(), "user": "ann", "pid": 1 << 22, "since": time.time(), "command": "busbar x"}
    (tmp_path / "inventory.lock").write_text(json.dumps(holder))
    guard, screen = CallbackModule(), Screen()
    guard._display = screen  # noqa: SLF001 - it has no other door
    guard._lock([str(tmp_path / "inventory")], "busbar provision base")  # noqa: SLF001
    (said,) = screen.warnings
    assert said.startswith("the lock of a run that was killed is taken over: busbar x, started by ann on ")
