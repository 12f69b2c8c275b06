"""Tests of the program that builds a SPANK plugin: its package, its build user, and its refusals."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest
from busbar.paths import collection
from executables import executable

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = collection() / "roles/slurm_spank/files/spank_build"
NAME = "busbar-spank-x-1-slurm24.11.5-0"
LIBRARY = "/usr/lib/busbar/spank/x-1-slurm24.11.5-0.so"
pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root builds as another user"),
    pytest.mark.skipif(not all(map(shutil.which, ("dpkg-deb", "make"))), reason="needs dpkg-deb and make"),
]


class Builder:
    """A build host with headers of Slurm 24.11.5, whose srun belongs to a package of Debian."""

    def __init__(self, folder: Path) -> None:
        """Write headers and commands."""
        self.folder = folder
        self.header = folder / "slurm_version.h"
        self.header.write_text("#define SLURM_VERSION_NUMBER 0x180b05\n", encoding="utf-8")
        text = PROGRAM.read_text(encoding="utf-8").replace("/usr/include/slurm/slurm_version.h", str(self.header))
        (folder / "spank_build").write_text(text, encoding="utf-8")
        (folder / "bin").mkdir()
        self.command("srun", "")
        self.command("dpkg-query", 'case $1 in -S) echo "slurm-client: $2" ;; -W) printf 1:24.11.5-4 ;; esac')

    def command(self, name: str, text: str) -> None:
        """Write a command of the host."""
        executable(self.folder / "bin" / name, f"#!/bin/sh\n{text}\n")

    def build(self, recipe: str, produces: str = "*.so", *make: str) -> subprocess.CompletedProcess[str]:
        """Build from an archive whose Makefile runs a command."""
        tree, archive = self.folder / "x-1", self.folder / "x.tar"
        tree.mkdir(exist_ok=True)
        (tree / "Makefile").write_text(f"all:\n\t{recipe}\n", encoding="utf-8")
        with tarfile.open(archive, "w") as stream:
            stream.add(tree, arcname="x-1")
        command = ["bash", str(self.folder / "spank_build"), str(archive), str(self.folder / f"{NAME}.deb"), LIBRARY]
        environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        return subprocess.run(
            [*command, "24.11.5", produces, *make], check=False, capture_output=True, text=True, env=environment
        )


def test_package_depends_on_the_release_of_slurm_and_is_built_as_nobody(tmp_path: Path) -> None:
    done = Builder(tmp_path).build("(id -un; echo $(WORD)) > x.so", "*.so", "WORD=two words")
    assert done.returncode == 0, done.stderr
    package = tmp_path / f"{NAME}.deb"
    fields = subprocess.run(["dpkg-deb", "--field", package], check=True, capture_output=True, text=True).stdout
    assert f"Package: {NAME}\n" in fields
    assert "Depends: slurm-client (>= 1:24.11), slurm-client (<< 1:24.12~)\n" in fields
    listed = subprocess.run(["dpkg-deb", "--contents", package], check=True, capture_output=True, text=True).stdout
    assert [line.split()[:2] for line in listed.splitlines() if line.endswith(f".{LIBRARY}")] == [
        ["-rw-r--r--", "root/root"]
    ]
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path / "root"], check=True)
    assert (tmp_path / f"root{LIBRARY}").read_text(encoding="utf-8") == "nobody\ntwo words\n"


def test_slurm_without_a_package_is_not_a_dependency(tmp_path: Path) -> None:
    builder = Builder(tmp_path)
    builder.command("dpkg-query", "exit 1")
    assert builder.build("touch x.so").returncode == 0
    fields = subprocess.run(["dpkg-deb", "-f", tmp_path / f"{NAME}.deb"], check=True, capture_output=True, text=True)
    assert "Depends" not in fields.stdout


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ("touch a.so b.so", "make must create one library *.so (found: "),
        ("ln -s /etc/shadow x.so", "make must create one library *.so (found: ). Set"),
        ("false", "Error 1"),
    ],
)
def test_build_without_a_library_creates_no_package(tmp_path: Path, recipe: str, said: str) -> None:
    done = Builder(tmp_path).build(recipe)
    assert done.returncode != 0
    assert said in done.stderr
    assert list(tmp_path.glob("*.deb")) == []


@pytest.mark.parametrize(("header", "said"), [("0x190500", "found 25.05.0, expected 24.11.5"), (None, "are missing")])
def test_headers_of_another_slurm_are_refused(tmp_path: Path, header: str | None, said: str) -> None:
    builder = Builder(tmp_path)
    builder.header.write_text(f"#define SLURM_VERSION_NUMBER {header}\n" if header else "", encoding="utf-8")
    done = builder.build("touch x.so")
    assert done.returncode != 0
    assert said in done.stderr
    assert "Install the development package of Slurm 24.11.5" in done.stderr
