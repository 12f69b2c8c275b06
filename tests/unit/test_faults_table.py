"""The page of the faults: in step with the tests that inject them and with what these measured."""

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
    """The script as a module."""
    return script_module(SCRIPT)


def test_the_page_says_what_the_tests_say() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], check=False, timeout=60)
    assert done.returncode == 0, "run scripts/faults_table"


def test_there_are_at_least_thirty_and_each_message_is_asserted_where_it_says(program: Any) -> None:  # noqa: ANN401
    found = program.entries()
    assert len(found) >= 30
    for entry in found:
        text = (TOP / entry.path).read_text(encoding="utf-8")
        assert entry.heals
        for part in entry.says.split("…"):
            # In what the table says and in what the test looks for; of a table of faults each text is looked for.
            assert "faulted import" in text or text.count(part.strip()) > 1, (entry.path, part)


def test_faults_of_the_scenario_have_been_measured(program: Any) -> None:  # noqa: ANN401
    runs = results()["runs"]
    names = {entry.name for entry in program.entries()}
    assert set(runs) <= names, "measured, and in no test any more"
    scenario = {entry.name for entry in program.entries() if Path(entry.path).name.startswith("test_faults_")}
    assert scenario <= set(runs), "run the test with BUSBAR_FAULT_RESULTS=tests/fixtures/fault_results.json"
