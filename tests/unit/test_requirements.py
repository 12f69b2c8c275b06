"""The packages that scripts/setup installs: all of them pinned, by hashes, and those that pyproject.toml asks for."""

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
    """The requirements of a file by package, each with the number of its hashes."""
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
    """The version of a package that a Python gets; '' for none."""
    where = {"python_version": python, "python_full_version": f"{python}.1", "sys_platform": "linux"}
    fitting = [
        requirement
        for requirement, _ in locked(name).get(canonicalize_name(package), [])
        if requirement.marker is None or requirement.marker.evaluate(where)
    ]
    assert len(fitting) <= 1, f"{package} is there twice for Python {python}"
    return str(fitting[0].specifier).removeprefix("==") if fitting else ""


def wanted(name: str) -> list[str]:
    """What pyproject.toml asks for."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    extra = [*extras["ansible"], *(each for key in ("docs", "test") if "test" in name for each in extras[key])]
    asked: list[str] = [*project["build-system"]["requires"], *project["project"]["dependencies"], *extra]
    return asked


@pytest.mark.parametrize("name", FILES)
def test_every_package_is_one_version_of_known_content_from_nowhere_in_particular(name: str) -> None:
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
def test_they_are_what_the_project_asks_for(name: str, python: str) -> None:
    for line in wanted(name):
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"python_version": python}):
            continue
        found = version(name, requirement.name, python)
        remedy = "run scripts/lock --keep, and commit what it changed"
        assert found, f"{requirement.name} is not in {name}: {remedy}"
        assert requirement.specifier.contains(found, prereleases=True), f"{line}: {name} has {found}: {remedy}"


@pytest.mark.parametrize("python", PYTHONS)
def test_the_tests_run_with_the_versions_that_users_have(python: str) -> None:
    for package in locked("requirements.txt"):
        theirs = version("requirements.txt", package, python)
        # Some packages are there for older Pythons only, and on a newer one for the tests alone.
        assert not theirs or version("requirements-test.txt", package, python) == theirs


def test_setup_installs_nothing_that_has_no_hash() -> None:
    lines = [line for line in (TOP / "scripts/setup").read_text().splitlines() if re.search(r"pip[^ ]* install", line)]
    assert len(lines) == 2
    assert "--require-hashes" in lines[0]
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(lines[1].split())
