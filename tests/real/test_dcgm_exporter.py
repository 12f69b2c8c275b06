"""Tests that the real dcgm-exporter accepts the arguments of the role. Other tests need DCGM and a GPU."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from real_packages import real_package

if TYPE_CHECKING:
    from pathlib import Path

# The arguments in the template of its unit.
PASSED = {"-f", "-a", "-c", "-r", "--hpc-job-mapping-dir", "--web-config-file"}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program of upstream's package, unpacked but not installed."""
    package = real_package("datacenter-gpu-manager-exporter_*.deb")
    folder = tmp_path_factory.mktemp("dcgm")
    subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    return folder / "usr/bin/dcgm-exporter"


def test_exporter_accepts_the_arguments_of_the_role(program: Path) -> None:
    shown = subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout
    known = set(re.findall(r"(?<![\w-])(-[a-z]|--[a-z][\w-]+)", shown))
    assert known >= PASSED
