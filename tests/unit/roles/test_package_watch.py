"""Tests of the program that writes the metric of vulnerable packages, as a node runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.roles.node_exporter.files import package_watch
from ansible_collections.busbar.cluster.roles.preflight.checks import package_fixes
from role_programs import install_program

if TYPE_CHECKING:
    from pathlib import Path

TABLE = {
    "as_of": "2026-11-27",
    "products": [
        {
            "name": "NVIDIA driver",
            "key": "driver",
            "option": "nvidia_driver_version",
            "branch_parts": 1,
            "vulnerabilities": [{"id": "CVE-2026-1"}],
            "upstream": ["580.2"],
            "source": "bulletin, 2026-11-01",
        },
        {
            "name": "munge",
            "key": "munge",
            "vulnerabilities": [{"id": "CVE-2026-2"}],
            "upstream": ["0.5.18"],
            "source": "advisory, 2026-11-01",
            "distributions": [],
        },
    ],
}


def samples(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({"driver": "580.1"}, ['busbar_package_vulnerable{package="NVIDIA driver",version="580.1"} 1']),
        ({"driver": "580.2"}, []),
        # It is unknown whether the distribution fixed it: preflight and doctor report it, but no alert fires.
        ({"munge": "0.5.13-1"}, []),
        ({}, []),
    ],
)
def test_known_vulnerabilities_become_samples(
    installed: dict[str, str], expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_watch, "versions", lambda: installed)
    (tmp_path / "table.json").write_text(json.dumps(TABLE))
    target = tmp_path / "busbar_packages.prom"
    target.write_text('busbar_package_vulnerable{package="old",version="1"} 1\n')
    assert package_watch.main(target, tmp_path / "table.json") == 0
    assert samples(target) == expected
    assert target.stat().st_mode & 0o777 == 0o644
    assert {path.name for path in tmp_path.iterdir()} == {"busbar_packages.prom", "table.json"}


def test_installed_program_reads_the_table_of_the_role(tmp_path: Path) -> None:
    program = install_program("node_exporter/files/package_watch.py", tmp_path / "package_watch")
    # Dates are written as text.
    (tmp_path / "package_watch.json").write_text(json.dumps(package_fixes(), default=str))
    subprocess.run([sys.executable, "-ISB", program, tmp_path / "busbar.prom"], check=True)
    assert "# TYPE busbar_package_vulnerable gauge" in (tmp_path / "busbar.prom").read_text()
