"""The two lanes in which the tests of the cluster run: every file in exactly one of them."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
FOLDER = TOP / "tests" / "sandbox"
LANES = runpy.run_path(str(FOLDER / "lanes.py"))


def lane(name: str) -> list[Path]:
    """The files of a lane as scripts/test gets them."""
    command = [sys.executable, str(FOLDER / "lanes.py"), name]
    told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=TOP).stdout
    return [Path(line) for line in told.splitlines()]


def test_every_file_is_in_exactly_one_lane() -> None:
    both = lane("first") + lane("second")
    assert sorted(both) == sorted(FOLDER.glob("test_*.py"))
    assert len(set(both)) == len(both)


def test_what_is_named_is_there_and_in_order() -> None:
    assert [path.name for path in lane("second")] == list(LANES["SECOND"])


def test_the_second_run_comes_before_any_other_test_of_its_cluster() -> None:
    assert lane("first")[0].name == "test_0_second_run.py"


@pytest.mark.parametrize("words", [[], ["third"], ["first", "second"]])
def test_another_lane_is_none(words: list[str]) -> None:
    done = subprocess.run([sys.executable, str(FOLDER / "lanes.py"), *words], check=False, capture_output=True)
    assert done.returncode == 1
    assert done.stdout == b""
