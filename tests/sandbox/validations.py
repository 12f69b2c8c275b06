"""Common helpers for tests of validations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conftest import as_json

if TYPE_CHECKING:
    import subprocess

    from conftest import Cluster

__all__ = ["validate"]


def validate(sandbox: Cluster, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run the playbook and return its output and the report."""
    latest = sandbox.state / "reports" / "latest"
    before = latest.resolve()
    done = sandbox.playbook("validate.yml", "-t", "validation_run", *arguments, timeout=300)
    assert latest.resolve() != before, done.stdout + done.stderr
    return done, as_json((latest / "report.json").read_text(encoding="utf-8"))
