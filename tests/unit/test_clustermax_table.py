"""The table of ClusterMAX checks matches its page, the program, and the options that it names."""

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
    """Return the results of a check for all callers (root, user, job)."""
    result = entry["result"]
    return set(result.values()) if isinstance(result, dict) else {result}


def test_page_matches_the_data() -> None:
    done = subprocess.run([sys.executable, str(TOP / "scripts/clustermax_table"), "--check"], check=False, timeout=60)
    assert done.returncode == 0, "run scripts/clustermax_table"


def test_checks_that_pass_in_a_plain_sandbox_need_no_option() -> None:
    for key in DATA["plain"]:
        assert "pass" in results(CHECKS[key])
        assert not CHECKS[key].get("by"), key


@pytest.mark.parametrize("key", CHECKS)
def test_check_has_results_and_a_reason_unless_it_passes(key: str) -> None:
    entry = CHECKS[key]
    assert set(entry) <= {"result", "by", "reason"}
    assert results(entry) <= STATES
    assert not isinstance(entry["result"], dict) or set(entry["result"]) == {"root", "user", "job"}
    assert results(entry) == {"pass"} or entry.get("reason")


def test_checks_match_the_program() -> None:
    report = pytest.importorskip("cmax.audit_report")
    assert version("clustermax") == DATA["version"]
    known = {spec.key for spec in report.list_check_specs(Path(report.__file__).parent, harness="slurm")}
    assert known == set(CHECKS)


def test_named_options_exist() -> None:
    defaults: dict[str, Any] = {}
    for path in TOP.glob("roles/*/defaults/main.yml"):
        defaults |= yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    named = {str(entry["by"]).partition(":")[0] for entry in CHECKS.values() if entry.get("by")}
    # The playbooks read the switches of whole roles.
    switches = {"enroot_enabled", "pyxis_enabled", "apptainer_enabled"}
    assert named <= {*defaults, *switches}
