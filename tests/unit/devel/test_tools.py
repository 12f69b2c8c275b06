"""Scripts without their tools name the command that installs them before they write anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from executables import executable

TOP = Path(__file__).resolve().parents[3]
# Programs that a script runs before it checks for its tools.
PRESENT = ("bash", "dirname")
CALLS = {
    "docs build": ("sphinx", "scripts/setup --test"),
    "docs picture": ("pytest", "scripts/setup --test"),
    "new role trial": ("aar-doc", "scripts/setup --test"),
    "new stage trial": ("ruff", "scripts/setup --test"),
    "role_readmes roles/hosts": ("aar-doc", "scripts/setup --test"),
    "lint ruff": ("ruff", "scripts/setup --test"),
    "build": ("ansible-galaxy", "scripts/setup"),
    "benchmark --list": ("ansible_collections", "scripts/setup"),
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout without .venv, with common programs and a Python without packages."""
    shutil.copytree(TOP / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "bin").mkdir()
    for name in PRESENT:
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    executable(tmp_path / "bin" / "python3", f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    return tmp_path


def run(checkout: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with only those programs."""
    environment = {"PATH": str(checkout / "bin"), "HOME": str(checkout)}
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment, cwd=checkout, stdin=subprocess.DEVNULL
    )


def written(checkout: Path) -> set[str]:
    """Return all paths of the checkout."""
    return {os.path.relpath(path, checkout) for path in checkout.rglob("*")}


@pytest.mark.parametrize("call", CALLS)
def test_script_without_its_tools_names_the_command_that_installs_them(checkout: Path, call: str) -> None:
    missing, remedy = CALLS[call]
    before = written(checkout)
    script, *arguments = call.split()
    done = run(checkout, str(checkout / "scripts" / script), *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith(f"scripts/{script}: not installed: ")
    assert missing in done.stderr.partition(";")[0]
    assert done.stderr.endswith(f"run: {remedy}\n")
    assert written(checkout) == before


def test_clustermax_table_names_the_command_that_installs_its_tools(checkout: Path) -> None:
    done = run(checkout, "python3", str(checkout / "scripts" / "clustermax_table"), "--check")
    assert done.returncode != 0
    assert "scripts/clustermax_table: not installed: yaml; run: scripts/setup" in done.stderr


def test_every_script_that_needs_tools_is_tested() -> None:
    looking = {path.name for path in (TOP / "scripts").iterdir() if path.is_file() and "\nneed " in path.read_text()}
    assert looking == {call.split()[0] for call in CALLS}
