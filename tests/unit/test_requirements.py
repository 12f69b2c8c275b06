"""The packages that scripts/setup installs are pinned with hashes and satisfy pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).resolve().parents[2]
FILES = ("requirements.txt", "requirements-test.txt")
PYTHONS = ("3.11", "3.12", "3.13")


def locked(name: str) -> dict[str, list[tuple[Requirement, int]]]:
    """Return the requirements of a file by package, each with the number of its hashes."""
    found: dict[str, list[tuple[Requirement, int]]] = {}
    text = (TOP / name).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line.partition(" --hash=")[0])
            hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}\b", line)
            assert line.count("--hash=") == len(hashes)
            found.setdefault(canonicalize_name(requirement.name), []).append((requirement, len(hashes)))
    return found


def version(name: str, package: str, python: str) -> str:
    """Return the version of a package for a version of Python, '' if it is not installed there."""
    where = {"python_version": python, "python_full_version": f"{python}.1", "sys_platform": "linux"}
    fitting = [
        requirement
        for requirement, _ in locked(name).get(canonicalize_name(package), [])
        if requirement.marker is None or requirement.marker.evaluate(where)
    ]
    assert len(fitting) <= 1, f"{package} is there twice for Python {python}"
    return str(fitting[0].specifier).removeprefix("==") if fitting else ""


def wanted(name: str) -> list[str]:
    """Return the requirements of pyproject.toml."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    extra = [*extras["ansible"], *(each for key in ("docs", "test") if "test" in name for each in extras[key])]
    asked: list[str] = [*project["build-system"]["requires"], *project["project"]["dependencies"], *extra]
    return asked


@pytest.mark.parametrize("name", FILES)
def test_every_package_is_pinned_with_hashes_and_without_an_index(name: str) -> None:
    found = [each for several in locked(name).values() for each in several]
    assert len(found) > 20
    for requirement, hashes in found:
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert requirement.url is None
        assert hashes, requirement
    text = (TOP / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"^\s*--(?!hash=)", text, re.MULTILINE), "an option of pip, such as an index"


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", FILES)
def test_locked_versions_satisfy_the_project(name: str, python: str) -> None:
    for line in wanted(name):
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"python_version": python}):
            continue
        found = version(name, requirement.name, python)
        remedy = "run scripts/lock --keep, and commit what it changed"
        assert found, f"{requirement.name} is not in {name}: {remedy}"
        assert requirement.specifier.contains(found, prereleases=True), f"{line}: {name} has {found}: {remedy}"


@pytest.mark.parametrize("python", PYTHONS)
def test_tests_run_with_the_versions_of_users(python: str) -> None:
    for package in locked("requirements.txt"):
        theirs = version("requirements.txt", package, python)
        # Some packages are needed only by older Pythons, and by newer ones only for the tests.
        assert not theirs or version("requirements-test.txt", package, python) == theirs


def test_setup_installs_only_packages_with_hashes() -> None:
    lines = [line for line in (TOP / "scripts/setup").read_text().splitlines() if re.search(r"pip[^ ]* install", line)]
    assert len(lines) == 2
    assert "--require-hashes" in lines[0]
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(lines[1].split())
