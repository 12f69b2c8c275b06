"""Several scripts where Slurm calls one."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.scripts import job_scripts, script_problems

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "/usr/local/lib/busbar"


def config(scripts: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = job_scripts(scripts, FOLDER, "# ours")["config"]
    return found


@pytest.mark.parametrize(
    ("scripts", "wanted"),
    [
        ({}, {}),
        ({"Prolog": "/a"}, {"Prolog": "/a"}),
        ({"Prolog": ["/a"], "Epilog": []}, {"Prolog": "/a"}),
        ({"Prolog": ["/a", "/b"], "Epilog": ["/c"]}, {"Prolog": f"{FOLDER}/job_prolog", "Epilog": "/c"}),
    ],
)
def test_one_script_is_named_and_several_are_called(scripts: dict[str, Any], wanted: dict[str, str]) -> None:
    assert config(scripts) == wanted


def run(folder: Path, key: str, *statuses: int) -> tuple[int, str]:
    """Exit status and output of a caller of scripts that end with the given statuses."""
    paths = []
    for number, status in enumerate(statuses):
        path = folder / f"it's {number}"
        path.write_text(f"#!/bin/bash\necho export N{number}=1\nexit {status}\n", encoding="utf-8")
        path.chmod(0o755)
        paths.append(str(path))
    files = job_scripts({key: paths}, str(folder), "# ours")["files"]
    (caller,) = (item for item in files if item["path"].endswith({"Epilog": "job_epilog"}.get(key, "job_prolog")))
    assert caller["content"].startswith("#!/bin/bash\n# ours\n")
    done = subprocess.run(["bash", "-c", caller["content"]], check=False, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_a_prolog_that_fails_ends_them(tmp_path: Path) -> None:
    assert run(tmp_path, "Prolog", 0, 0) == (0, "export N0=1\nexport N1=1\n")
    assert run(tmp_path, "Prolog", 3, 0) == (3, "export N0=1\n")


def test_an_epilog_that_fails_keeps_no_other_from_its_work(tmp_path: Path) -> None:
    assert run(tmp_path, "Epilog", 3, 0) == (3, "export N0=1\nexport N1=1\n")


def test_there_is_a_file_for_each_key_whatever_is_declared() -> None:
    names = [item["path"] for item in job_scripts({}, FOLDER, "")["files"]]
    assert names == [f"{FOLDER}/{name}" for name in ("job_prolog", "job_epilog", "job_task_prolog")]


@pytest.mark.parametrize(
    ("scripts", "key", "said"),
    [
        ({"Prologue": "/a"}, "slurm_job_scripts.Prologue", "is no key for scripts of jobs"),
        ({"Prolog": "a.sh"}, "slurm_job_scripts.Prolog", "'a.sh' is no absolute path"),
        ({"Epilog": ["/a", "~/b"]}, "slurm_job_scripts.Epilog", "'~/b' is no absolute path"),
    ],
)
def test_what_cannot_be_called_is_refused(scripts: dict[str, Any], key: str, said: str) -> None:
    (problem,) = script_problems(scripts)
    assert (problem["key"], problem["problem"]) == (key, said)


def test_what_can_be_called_is_not() -> None:
    assert script_problems({"Prolog": ["/a", "/b"], "TaskProlog": "/c"}) == []
