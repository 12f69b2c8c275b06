"""Tests of the storage program, run as processes of this machine: one per rank, phase by phase."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.storage.storage_judge import (
    judge_storage,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.storage.storage_parser import (
    read_storage,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.storage.storage_results import Limits
from executables import executable

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).resolve().parents[3] / "roles" / "validation" / "files" / "busbar_storage_check.py"
TOKEN = "0123456789abcdef"  # noqa: S105 - a name, not a secret
FLOORS: dict[str, float | None] = {"write": 1e6, "read": 1e6}
PHASES = ("write", "read", "rename", "lock", "speed-write", "speed-read", "clean")
FIO = """\
#!/bin/sh
for word in "$@"; do case $word in --filename=*) file=${word#*=} ;; --rw=*) way=${word#*=} ;; esac; done
[ $way = read ] || head -c 2097152 /dev/zero >"$file"
printf 'fio: a warning\\n{"jobs": [{"%s": {"bw_bytes": 123000000, "io_bytes": 2097152, "runtime": 17}}]}' "$way"
"""


@pytest.fixture
def fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a stand-in for fio without measurements, first in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    executable(folder / "fio", FIO)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "fio"


def start(path: Path, phase: str, rank: int, ranks: int, *arguments: str) -> subprocess.Popen[str]:
    slurm = {"SLURM_PROCID": str(rank), "SLURM_NTASKS": str(ranks), "SLURMD_NODENAME": f"gpu{rank + 1}"}
    slurm |= {"BUSBAR_STORAGE_TOKEN": TOKEN}
    command = [sys.executable, "-B", str(PROGRAM), "--path", str(path), "--phase", phase]
    command += ["--patience", "4", *arguments]
    return subprocess.Popen(command, env=os.environ | slurm, stdout=subprocess.PIPE, text=True)


def until(true: Callable[[], bool]) -> None:
    """Wait until the condition is true; the machine may be busy."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def phase_of(paths: list[Path], phase: str, *arguments: str) -> str:
    """Run one phase on all ranks concurrently."""
    children = [start(path, phase, rank, len(paths), *arguments) for rank, path in enumerate(paths)]
    return "".join(child.communicate(timeout=120)[0] for child in children)


def judged(text: str, ranks: int) -> tuple[str, str, list[str]]:
    nodes = [f"gpu{number + 1}" for number in range(ranks)]
    limits = Limits("/shared", dict.fromkeys(nodes, FLOORS))
    answer = judge_storage(read_storage(text), nodes, limits)
    return answer["verdict"], answer["reason"], [item["node"] for item in answer["blamed"]]


@pytest.mark.usefixtures("fio")
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_shared_tree_passes_and_is_cleaned_up(tmp_path: Path, ranks: int) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    text = "".join(phase_of([shared] * ranks, phase, "--size", "2097152", "--patience", "60") for phase in PHASES)
    assert judged(text, ranks)[0] == "PASS", text
    assert "slowest write 123 MB/s" in judged(text, ranks)[1]
    assert max(len(line) for line in text.splitlines()) < 1000
    assert list(shared.iterdir()) == []


@pytest.mark.usefixtures("fio")
def test_node_with_a_different_tree_is_found_and_cleaned_up(tmp_path: Path) -> None:
    shared, private = tmp_path / "shared", tmp_path / "private"
    shared.mkdir()
    private.mkdir()
    text = "".join(phase_of([shared, private, shared], phase, "--patience", "12") for phase in PHASES)
    verdict, reason, blamed = judged(text, 3)
    assert (verdict, blamed) == ("FAIL", ["gpu2"]), text
    assert "gpu2: sees a different tree" in reason
    assert (list(shared.iterdir()), list(private.iterdir())) == ([], [])


def spoiled(shared: Path, name: str, make: Callable[[Path], object]) -> None:
    make(next(shared.glob(f".busbar-storage-*/{name}")))


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda path: path.unlink(), "missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "wrong"),
        (lambda path: path.write_bytes(b""), "wrong"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x"), "wrong"),
    ],
)
def test_changed_content_is_reported(tmp_path: Path, make: Callable[[Path], object], word: str) -> None:
    phase_of([tmp_path] * 2, "write")
    spoiled(tmp_path, "data-1", make)
    said = read_storage(phase_of([tmp_path] * 2, "read"))
    assert said[0]["sees"][0]["result"] == word
    assert said[1]["problems"] == (["read: the file of this node does not exist"] if word == "missing" else [])


def test_old_content_is_reported_as_stale(tmp_path: Path) -> None:
    phase_of([tmp_path] * 2, "write")
    old = next(tmp_path.glob(".busbar-storage-*/data-1")).read_bytes()
    phase_of([tmp_path] * 2, "rename")
    spoiled(tmp_path, "data-1", lambda path: path.write_bytes(old))
    said = read_storage(phase_of([tmp_path] * 2, "lock"))
    assert [item["sees"][0]["result"] for item in said] == ["stale", "ok"]


def test_full_file_system_is_found_before_anything_is_written(tmp_path: Path) -> None:
    phase_of([tmp_path] * 2, "write")
    said = read_storage(phase_of([tmp_path] * 2, "speed-write", "--size", str(1 << 55)))
    assert [item["speed"]["write"]["error"] for item in said] == ["no room", "no room"]
    assert list(tmp_path.glob(".busbar-storage-*/fio-*")) == []


def test_missing_tree_is_reported(tmp_path: Path) -> None:
    text = "".join(phase_of([tmp_path / "nowhere"] * 2, phase) for phase in PHASES)
    verdict, reason, _blamed = judged(text, 2)
    assert verdict == "FAIL"
    assert "cannot write" in reason
    assert "No such file or directory" in reason


def test_without_fio_nothing_is_measured_and_that_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    phase_of([tmp_path], "write")
    said = read_storage(phase_of([tmp_path], "speed-write"))
    assert said[0]["speed"]["write"]["error"] == "fio is not installed"


def test_terminated_rank_removes_its_files_and_stops_fio(tmp_path: Path, fio: Path) -> None:
    fio.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 300\n", encoding="utf-8")
    shared = tmp_path / "shared"
    shared.mkdir()
    phase_of([shared], "write")
    child = start(shared, "speed-write", 0, 1)
    pid = tmp_path / "pid"
    until(lambda: pid.exists() and bool(pid.read_text(encoding="ascii").strip()))
    child.terminate()
    assert child.wait(timeout=30) == 143
    assert list(shared.iterdir()) == []
    until(lambda: not Path("/proc", pid.read_text(encoding="ascii").strip()).exists())


def test_sweep_removes_only_the_folder_of_this_run(tmp_path: Path) -> None:
    phase_of([tmp_path], "write")
    (tmp_path / ".busbar-storage-another").mkdir()
    (tmp_path / "precious").touch()
    phase_of([tmp_path], "sweep")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".busbar-storage-another", "precious"]


@pytest.mark.parametrize("token", ["", "short", "../../../../etc", "a" * 65])
def test_token_that_could_name_another_folder_is_refused(tmp_path: Path, token: str) -> None:
    done = subprocess.run(
        [sys.executable, "-B", str(PROGRAM), "--path", str(tmp_path), "--phase", "sweep"],
        env=os.environ | {"BUSBAR_STORAGE_TOKEN": token},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "BUSBAR_STORAGE_TOKEN must be 8 to 64" in done.stderr
