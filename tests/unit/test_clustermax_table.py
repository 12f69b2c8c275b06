"""The table of ClusterMAX's checks: in step with its page, with the program, and with the options that it names."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).resolve().parents[2]
DATA: dict[str, Any] = yaml.safe_load((TOP / "tests/fixtures/clustermax.yml").read_text(encoding="utf-8"))
CHECKS: dict[str, dict[str, Any]] = DATA["checks"]
STATES = {"pass", "warning", "fail", "skipped"}


def results(entry: dict[str, Any]) -> set[str]:
    """The results of a check, whoever asks."""
    result = entry["result"]
    return set(result.values()) if isinstance(result, dict) else {result}


def test_the_page_says_what_the_data_say() -> None:
    done = subprocess.run([sys.executable, str(TOP / "scripts/clustermax_table"), "--check"], check=False, timeout=60)
    assert done.returncode == 0, "run scripts/clustermax_table"


def test_what_a_plain_sandbox_passes_needs_no_option() -> None:
    for key in DATA["plain"]:
        assert "pass" in results(CHECKS[key])
        assert not CHECKS[key].get("by"), key


@pytest.mark.parametrize("key", CHECKS)
def test_a_check_has_results_and_whatever_does_not_pass_its_reason(key: str) -> None:
    entry = CHECKS[key]
    assert set(entry) <= {"result", "by", "reason"}
    assert results(entry) <= STATES
    assert not isinstance(entry["result"], dict) or set(entry["result"]) == {"root", "user", "job"}
    assert results(entry) == {"pass"} or entry.get("reason")


def test_the_checks_are_those_of_the_program() -> None:
    report = pytest.importorskip("cmax.audit_report")
    assert version("clustermax") == DATA["version"]
    known = {spec.key for spec in report.list_check_specs(Path(report.__file__).parent, harness="slurm")}
    assert known == set(CHECKS)


def test_an_option_that_is_named_is_one() -> None:
    defaults: dict[str, Any] = {}
    for path in TOP.glob("roles/*/defaults/main.yml"):
        defaults |= yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    named = {str(entry["by"]).partition(":")[0] for entry in CHECKS.values() if entry.get("by")}
    # Switches of whole roles are read by the playbooks.
    switches = {"enroot_enabled", "pyxis_enabled", "apptainer_enabled"}
    assert named <= {*defaults, *switches}
