"""The page of the faults: in step with the tests that inject them and with what these measured."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fault_results import note, results

TOP = Path(__file__).resolve().parents[2]
SCRIPT = TOP / "scripts/faults_table"
TABLE = 'FAULTS = [Fault("a leak", says="gpu1: wet", heals="mop")]\n'


@pytest.fixture(scope="module")
def program() -> Any:  # noqa: ANN401 - a script without suffix has no types
    """The script as a module."""
    loader = importlib.machinery.SourceFileLoader("faults_table", str(SCRIPT))
    spec = importlib.util.spec_from_loader("faults_table", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules["faults_table"] = module
    loader.exec_module(module)
    return module


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A checkout with one test of a fault."""
    for folder in ("sandbox", "vm"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
    (tmp_path / "tests/sandbox/test_leak.py").write_text(TABLE)
    return tmp_path


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


def test_a_fault_without_its_message_or_with_the_name_of_another_is_refused(program: Any, top: Path) -> None:  # noqa: ANN401
    assert [entry.name for entry in program.entries(top)] == ["a leak"]
    other = top / "tests/vm/test_other.py"
    other.write_text(TABLE)
    with pytest.raises(ValueError, match=r"test_other.py:1: the fault 'a leak' is in tests/sandbox/test_leak.py"):
        program.entries(top)
    other.write_text('import pytest\n\n\n@pytest.mark.fault("rust", says="gpu1: red")\ndef test_rust(): ...\n')
    with pytest.raises(ValueError, match=r"test_other.py:4: a fault needs name, says and heals"):
        program.entries(top)


def test_results_are_noted_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    monkeypatch.delenv("BUSBAR_FAULT_RESULTS", raising=False)
    note("runs", "a leak", {"told_s": 3})
    assert not path.exists()
    monkeypatch.setenv("BUSBAR_FAULT_RESULTS", str(path))
    note("runs", "a leak", {"told_s": 3})
    note("drains", "a leak", {"seconds": 4})
    assert results(path)["runs"]["a leak"]["told_s"] == 3
    assert set(results(path)) == {"runs", "drains"}
