"""Tests of the script that runs several scripts where Slurm permits one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from executables import executable

TEMPLATE = Path(__file__).resolve().parents[3] / "roles/slurm/templates/job_caller.j2"


def caller(key: str, scripts: dict[str, Any]) -> str:
    """Return the text of the calling script for a key of slurm.conf."""
    variables = {"ansible_managed": "ours", "key": key, "slurm_job_scripts": scripts}
    text = trust_as_template(TEMPLATE.read_text(encoding="utf-8"))
    return str(Templar(loader=DataLoader(), variables=variables).template(text))


def run(folder: Path, key: str, *statuses: int) -> tuple[int, str]:
    """Return exit status and output of a calling script whose scripts exit with these statuses."""
    paths = []
    for number, status in enumerate(statuses):
        path = folder / f"it's {number}"
        executable(path, f"#!/bin/bash\necho export N{number}=1\nexit {status}\n")
        paths.append(str(path))
    done = subprocess.run(["bash", "-c", caller(key, {key: paths})], check=False, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_failed_prolog_skips_later_prologs(tmp_path: Path) -> None:
    assert run(tmp_path, "Prolog", 0, 0) == (0, "export N0=1\nexport N1=1\n")
    assert run(tmp_path, "Prolog", 3, 0) == (3, "export N0=1\n")


def test_failed_epilog_does_not_skip_later_epilogs(tmp_path: Path) -> None:
    assert run(tmp_path, "Epilog", 3, 0) == (3, "export N0=1\nexport N1=1\n")


@pytest.mark.parametrize("scripts", [{}, {"Prolog": ""}, {"Prolog": []}])
def test_a_missing_callback_is_not_a_failure(scripts: dict[str, Any]) -> None:
    text = caller("Prolog", scripts)
    assert text.splitlines() == [
        "#!/bin/bash",
        "#",
        "# ours",
        "#",
        "# slurmd calls this script as Prolog, because slurm_job_scripts lists several scripts.",
        "exit 0",
    ]


def test_single_path_is_called_by_a_posix_script() -> None:
    """Slurm ends a task whose TaskProlog fails, and an image may lack bash."""
    lines = caller("TaskProlog", {"TaskProlog": "/b"}).splitlines()
    assert (lines[0], lines[-2:]) == ("#!/bin/sh", ["/b || exit", "exit 0"])
