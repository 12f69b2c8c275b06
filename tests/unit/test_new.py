"""Each recipe of CONTRIBUTING.md runs verbatim in a copy of the checkout, and the tests of what it creates pass."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TOP = Path(__file__).resolve().parents[2]
RECIPES = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAMES = {"profile": "tiny_box", "role": "tree_tools", "stage": "roll_call"}


def recipe(kind: str) -> list[str]:
    """Return the commands of a recipe, with the name of this test in place of NAME."""
    (section,) = re.findall(rf"^## Add a[^\n]*{kind}\n.*?(?=^## |\Z)", RECIPES, re.MULTILINE | re.DOTALL)
    return [
        line.removeprefix("$ ").replace("NAME", NAMES[kind])
        for line in re.findall(r"^ *(\$ .*)$", section, re.MULTILINE)
    ]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the checkout's tracked and unignored files."""
    copy = tmp_path_factory.mktemp("original")
    run = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(run, check=True, capture_output=True, text=True, cwd=TOP).stdout.split("\0")
    for name in listed:
        path = TOP / name
        if name and (path.is_symlink() or path.is_file()):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy / name, follow_symlinks=False)
    return copy


@pytest.fixture(scope="module")
def original_files(original: Path) -> dict[str, bytes]:
    """Return all files of the original copy that a recipe could write."""
    return files(original)


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    """Return a copy that a test may change."""
    return shutil.copytree(original, tmp_path / "copy", symlinks=True)


def run(copy: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a recipe."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(copy), "LANG": "C.UTF-8"}
    return subprocess.run(
        ["bash", "-c", command], check=False, capture_output=True, text=True, cwd=copy, env=environment, timeout=300
    )


def files(copy: Path) -> dict[str, bytes]:
    """Return all files that a recipe could write."""
    found = (
        path for folder in ("plugins", "roles", "playbooks", "tests", "molecule") for path in (copy / folder).rglob("*")
    )
    return {
        str(path.relative_to(copy)): path.read_bytes() for path in found if path.is_file() and path.suffix != ".pyc"
    }


@pytest.mark.parametrize("kind", NAMES)
def test_recipe_creates_files_that_pass_tests_and_linters(
    kind: str, copy: Path, original_files: dict[str, bytes]
) -> None:
    commands = recipe(kind)
    assert commands[0] == f"scripts/new {kind} {NAMES[kind]}"
    made: set[str] = set()
    for command in commands:
        if command.startswith(("busbar ", "scripts/test ", "git ", "scripts/lint")):
            continue  # needs machines, or checks the whole checkout
        done = run(copy, command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        if not made:
            made = {*done.stdout.split()}
        else:
            assert re.search(r"[1-9]\d* passed", done.stdout), f"{command} tests nothing"
    after = files(copy)
    assert {name for name in after if after[name] != original_files.get(name)} <= made | {"roles/validation/README.md"}
    assert made <= {*after}
    python = [name for name in made if name.endswith(".py")]
    yaml = [name for name in made if name.endswith(".yml")]
    for check, names in (("ruff check", python), ("ruff format --check", python), ("yamllint -s", yaml)):
        if names:
            done = run(copy, f"{check} {' '.join(names)}")
            assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("profile Tiny-Box", "'Tiny-Box' is not a valid name: use up to 40 lower-case letters, digits and '_'"),
        ("profile ../../x", "is not a valid name"),
        ("profile dgx_h100", "plugins/plugin_utils/engine/catalogue/hardware/dgx_h100.yml already exists"),
        ("role slurm", "already begins with slurm_"),
        ("role monitoring", "already begins with monitoring_"),
        ("role import", "'import' is not a valid name"),
        ("role x --playbook site", "invalid choice: 'site'"),
        ("stage storage", "already begins with validation_storage_"),
        ("stage cluster", "already exists"),
    ],
)
def test_invalid_name_is_refused_and_nothing_is_written(
    arguments: str, said: str, original: Path, original_files: dict[str, bytes]
) -> None:
    done = run(original, f"scripts/new {arguments}")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert files(original) == original_files
