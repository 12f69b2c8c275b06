"""Tests of the wheel from a package index, in an environment without Ansible, with this machine's oldest Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from conftest import TOP

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.proves()

PYTHONS = ["python3.9", "python3.10", sys.executable]
RECORDING = TOP / "tests/fixtures/nccl/all_reduce_2x8.txt"


def found(python: str) -> str:
    """Return the path of a working Python, or '' if there is none."""
    path = shutil.which(python) or ""
    return path if path and not subprocess.run([path, "-V"], check=False, capture_output=True).returncode else ""


@pytest.fixture(scope="module")
def busbar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the command of an environment into which pip has installed the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([TOP / "scripts/build", folder], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    python = next(path for name in PYTHONS if (path := found(name)))
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
    subprocess.run([folder / "venv/bin/pip", "install", "--quiet", wheel], check=True, capture_output=True)
    return folder / "venv/bin/busbar"


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, check=False, capture_output=True, text=True)


def test_pip_installs_no_ansible(busbar: Path) -> None:
    assert "No module named 'ansible'" in run(busbar.with_name("python"), "-c", "import ansible").stderr
    done = run(busbar, "provision")
    assert done.returncode == 2
    assert "busbar provision needs Ansible: pip install 'busbar[ansible]'" in done.stderr


def test_user_commands_run(busbar: Path) -> None:
    shown = run(busbar, "--help")
    assert shown.returncode == 0, shown.stderr
    assert "prove" in shown.stdout
    judged = run(busbar, "judge", RECORDING, "--hardware", "dgx_h100", "--nodes", "2")
    assert judged.returncode == 1, judged.stderr
    assert judged.stdout.startswith("FAIL: too slow")
    listed = run(busbar, "hardware", "list")
    assert listed.returncode == 0, listed.stderr
    assert "dgx_h100" in listed.stdout
    refused = run(busbar, "prove")
    assert refused.returncode == 2
    assert "busbar: " in refused.stderr
