"""The workflows of GitHub and GitLab run the same jobs, run only scripts of the checkout, and cover all versions."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import yaml
from busbar.sandbox.state import DISTRIBUTIONS, IMAGES

TOP = Path(__file__).resolve().parents[2]
GITHUB = {path.stem: path for path in (TOP / ".github/workflows").glob("*.yml")}
SCRIPTS = re.compile(r"(?:sudo )?(scripts/(?:ci|test)|\.ci/run)(?: .*)?")
# Jobs whose output becomes a matrix of jobs.
LISTS = {"distributions"}


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def github() -> dict[str, Any]:
    return {name: job for path in GITHUB.values() for name, job in load(path)["jobs"].items()}


def gitlab() -> dict[str, Any]:
    return {name: job for name, job in load(TOP / ".gitlab-ci.yml").items() if "script" in job or "trigger" in job}


def supported() -> set[tuple[str, str]]:
    """Return pairs of Python and ansible-core, as ansible-core declares them."""
    return {("3.11", "2.19"), ("3.12", "2.19"), ("3.13", "2.19")} | {
        (f"3.{python}", core) for python in (12, 13, 14) for core in ("2.20", "2.21")
    }


def test_each_step_is_a_script_of_the_checkout() -> None:
    steps = [
        step["run"] for name, job in github().items() if name not in LISTS for step in job["steps"] if "run" in step
    ]
    steps += [line for name, job in gitlab().items() if name not in LISTS for line in job.get("script", [])]
    assert steps
    for step in steps:
        found = SCRIPTS.fullmatch(step)
        assert found, step
        assert (TOP / found[1]).stat().st_mode & 0o111
    called = {shlex.split(step)[1] for step in steps if step.startswith("scripts/ci")}
    named = set(re.findall(r"^#   scripts/ci (\w+)", (TOP / "scripts/ci").read_text(), re.MULTILINE))
    assert called | LISTS == named


def test_both_forges_run_the_same_jobs() -> None:
    assert set(github()) == set(gitlab())
    schedule = load(GITHUB["nightly"])
    assert "full" in schedule["jobs"]
    assert "schedule" in schedule["on"]


def test_all_supported_versions_are_tested() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.9"
    assert "ansible-core>=2.19,<2.22; python_version >= '3.11'" in project["optional-dependencies"]["ansible"]
    pythons = [f"3.{minor}" for minor in range(9, 15)]
    assert github()["engine"]["strategy"]["matrix"]["python"] == pythons
    assert gitlab()["engine"]["parallel"]["matrix"] == [{"PYTHON": pythons}]
    included = github()["unit"]["strategy"]["matrix"]["include"]
    assert {(each["python"], each["core"]) for each in included} == supported()
    rows = gitlab()["unit"]["parallel"]["matrix"]
    cores = [(row["PYTHON"], row["CORE"] if isinstance(row["CORE"], list) else [row["CORE"]]) for row in rows]
    assert {(python, core) for names, each in cores for python in names for core in each} == supported()


def test_each_distribution_of_the_sandbox_has_a_job(tmp_path: Path) -> None:
    listed = subprocess.run([TOP / "scripts/ci", "distributions"], check=True, capture_output=True, text=True)
    assert json.loads(listed.stdout) == sorted(DISTRIBUTIONS | IMAGES)
    assert "distributions.outputs.names" in github()["sandbox"]["strategy"]["matrix"]["distribution"]
    (script,) = gitlab()["distributions"]["script"]
    subprocess.run(
        ["bash", "-ec", script.replace("scripts/ci dist", f"{TOP}/scripts/ci dist")], check=True, cwd=tmp_path
    )
    jobs = load(tmp_path / "sandbox.yml")
    assert {name: job["script"] for name, job in jobs.items()} == {
        name: [f"scripts/ci sandbox {name}"] for name in DISTRIBUTIONS | IMAGES
    }
    assert {tuple(job["tags"]) for job in jobs.values()} == {("busbar-vm",)}


def test_unknown_step_is_refused_with_the_known_steps() -> None:
    done = subprocess.run([TOP / "scripts/ci", "everything"], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "scripts/ci engine" in done.stderr


def test_badges_show_workflows_of_this_checkout() -> None:
    shown = re.findall(r"actions/workflows/(\w+)\.yml/badge\.svg", (TOP / "README.md").read_text())
    assert sorted(shown) == sorted(GITHUB)
