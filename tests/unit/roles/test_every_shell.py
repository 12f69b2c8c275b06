"""Non-login shells have modules, print nothing, and read Lmod only if modules are not inherited."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from busbar.paths import collection

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = collection() / "roles/lmod/files/every_shell.sh"
OWN = "/etc/profile.d"


@pytest.fixture
def bashrc(tmp_path: Path) -> Path:
    """Write the role's block before the start of Debian's bash.bashrc, with stand-ins for Lmod's file and busbar's."""
    text = BLOCK.read_text(encoding="utf-8").replace(OWN, str(tmp_path))
    path = tmp_path / "bash.bashrc"
    path.write_text(text + '[ -z "${PS1-}" ] && return\necho interactive\n', encoding="utf-8")
    (tmp_path / "lmod.sh").write_text('module() { echo "module $*"; }; export LMOD_CMD=x; echo noise; false\n')
    (tmp_path / "zz-busbar-modules.sh").write_text("export MODULEPATH=/tree; echo noise >&2\n")
    return path


def shell(bashrc: Path, command: str, *, before: str = "") -> tuple[int, str]:
    """Return exit code and output of a command in a shell that read the file."""
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", f"{before}\n. {bashrc}\n{command}"],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
        timeout=30,
    )
    return done.returncode, done.stdout + done.stderr


def test_shell_has_modules_and_prints_nothing(bashrc: Path) -> None:
    assert shell(bashrc, "module avail; echo $MODULEPATH $__busbar_file") == (0, "module avail\n/tree\n")


def test_inherited_modules_are_kept(bashrc: Path) -> None:
    told = shell(bashrc, "module; echo path:$MODULEPATH", before='module() { echo "the own"; }')
    assert told == (0, "the own\npath:\n")


def test_shell_works_without_lmod(bashrc: Path) -> None:
    for name in ("lmod.sh", "zz-busbar-modules.sh"):
        (bashrc.parent / name).unlink()
    assert shell(bashrc, "echo $?; set -e; . " + str(bashrc) + "; echo whole")[1].endswith("whole\n")
