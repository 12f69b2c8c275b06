"""The page of faults matches the tests that inject them and their measurements."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fault_results import results
from script_modules import script_module

TOP = Path(__file__).resolve().parents[2]
SCRIPT = TOP / "scripts/faults_table"


@pytest.fixture(scope="module")
def program() -> Any:  # noqa: ANN401 - a script without suffix has no types
    """Return the script as a module."""
    return script_module(SCRIPT)


def test_page_matches_the_tests() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], check=False, timeout=60)
    assert done.returncode == 0, "run scripts/faults_table"


def test_there_are_at_least_thirty_faults_and_tests_assert_each_message(program: Any) -> None:  # noqa: ANN401
    found = program.entries()
    assert len(found) >= 30
    for entry in found:
        text = (TOP / entry.path).read_text(encoding="utf-8")
        assert entry.heals
        for part in entry.says.split("…"):
            # Each part occurs twice: in the table's entry and in an assertion. Faults of a table are asserted by a
            # loop.
            assert "faulted import" in text or text.count(part.strip()) > 1, (entry.path, part)


def test_faults_of_the_scenario_have_measurements(program: Any) -> None:  # noqa: ANN401
    runs = results()["runs"]
    names = {entry.name for entry in program.entries()}
    assert set(runs) <= names, "measured, and in no test any more"
    scenario = {entry.name for entry in program.entries() if Path(entry.path).name.startswith("test_faults_")}
    assert scenario <= set(runs), "run the test with BUSBAR_FAULT_RESULTS=tests/fixtures/fault_results.json"
