"""Tests of the programs that roles install on nodes."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.programs import imported_files, program
from role_programs import PROGRAMS, install_program

if TYPE_CHECKING:
    from pathlib import Path

# An argument with which the program changes nothing, and the exit status.
CALLS: dict[str, tuple[str, int]] = {
    "account_groups.py": ("--dry-run", 1),
    "acs_off.py": ("--look", 0),
    "backup.py": ("--help", 0),
    "blank_disk.py": ("/dev/null", 0),
    "busbar_soak_watch.py": ("--help", 0),
    "home_quota.py": ("--help", 0),
    "node_health.py": ("--look", 1),
    "package_watch.py": ("/nonexistent/busbar.prom", 1),
    "portal.py": ("cancel", 2),
    "slurm_metrics.py": ("--once", 1),
}


@pytest.mark.parametrize("files", PROGRAMS, ids=lambda files: files[0].name)
def test_each_program_needs_only_the_standard_library(files: list[Path], tmp_path: Path) -> None:
    path = install_program("/".join(files[0].parts[-3:]), tmp_path / "program")
    argument, status = CALLS[files[0].name]
    command = [sys.executable, "-ISB", str(path), argument]
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert "ImportError" not in done.stderr
    assert "ModuleNotFoundError" not in done.stderr
    assert done.returncode == status, done.stderr


@pytest.mark.parametrize("files", PROGRAMS, ids=lambda files: files[0].name)
def test_program_build_is_reproducible(files: list[Path]) -> None:
    built = program(files)
    assert built == program(files)
    assert built.startswith(b"#!/usr/bin/python3 -IB\n")
    with zipfile.ZipFile(io.BytesIO(built)) as archive:
        members = archive.infolist()
    assert [each.filename for each in members] == sorted(each.filename for each in members)
    assert {each.date_time for each in members} == {(1980, 1, 1, 0, 0, 0)}
    assert {each.compress_type for each in members} == {zipfile.ZIP_STORED}


def test_only_imported_modules_are_included(tmp_path: Path) -> None:
    texts = {
        "entry.py": "from ansible_collections.busbar.cluster.plugins.module_utils.one.main import x\nimport os\n",
        "module_utils/one/main.py": "from .near import x\nfrom ..two.far import y\nfrom . import beside\n",
        "module_utils/one/near.py": "from ..two import far\n",
        "module_utils/one/beside.py": "from .main import z\n",
        "module_utils/one/other.py": "",
        "module_utils/two/far.py": "from os import path\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = imported_files([tmp_path / "entry.py"], tmp_path)
    wanted = texts.keys() - {"entry.py", "module_utils/one/other.py"}
    assert {path.relative_to(tmp_path).as_posix() for path in found} == wanted


def test_missing_import_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "entry.py").write_text("from ansible_collections.busbar.cluster.plugins.module_utils.gone import x\n")
    with pytest.raises(FileNotFoundError, match="gone"):
        program([tmp_path / "entry.py"])
