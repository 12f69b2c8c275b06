"""The module that installs what is missing."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_commands import lists_are_fresh
from ansible_collections.busbar.cluster.plugins.modules import packages

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "chrony install ok installed\ntzdata deinstall ok config-files\n"


class FakeModule:
    """Answers commands from a table and records them."""

    def __init__(self, answers: dict[str, tuple[int, str]], programs: tuple[str, ...] = ("dpkg-query", "apt-get")):
        """Keep the answers and say which programs there are."""
        self.answers, self.programs = answers, programs
        self.commands: list[str] = []
        self.failure = ""

    def get_bin_path(self, name: str) -> str | None:
        """Return where a program is."""
        return f"/usr/bin/{name}" if name in self.programs else None

    def run_command(self, command: list[str], **_: object) -> tuple[int, str, str]:
        """Return the status and the output of the first answer that fits."""
        line = " ".join(command)
        self.commands.append(line)
        status, out = next((answer for key, answer in self.answers.items() if key in line), (0, ""))
        return status, out, ""

    def fail_json(self, msg: str, **_: object) -> None:
        """Keep the message."""
        self.failure = msg


def test_missing_on_debian() -> None:
    module = FakeModule({"dpkg-query": (1, QUERY)})
    assert packages.missing_packages(module, ["procps", "chrony", "tzdata"]) == ["procps", "tzdata"]
    assert len(module.commands) == 1


@pytest.mark.parametrize(
    ("answers", "missing"),
    [({"rpm": (0, "")}, []), ({"whatprovides chrony": (0, ""), "rpm": (1, "")}, ["tzdata"])],
)
def test_missing_on_red_hat(answers: dict[str, tuple[int, str]], missing: list[str]) -> None:
    module = FakeModule(answers, programs=("rpm", "dnf"))
    assert packages.missing_packages(module, ["chrony", "tzdata"]) == missing


@pytest.mark.parametrize(
    ("files", "age", "fresh"),
    [
        ([], 0, False),
        (["lock"], 0, False),
        (["mirror_dists_trixie_InRelease", "mirror_main_binary-amd64_Packages"], 60, True),
        (["mirror_dists_trixie_InRelease", "mirror_main_binary-amd64_Packages.lz4"], 60, True),
        (["mirror_dists_trixie_InRelease", "mirror_main_binary-amd64_Packages"], 7200, False),
    ],
)
def test_empty_lists_are_never_fresh(tmp_path: Path, files: list[str], age: float, *, fresh: bool) -> None:
    for name in files:
        (tmp_path / name).touch()
    moment = time.time() - age
    os.utime(tmp_path, (moment, moment))
    assert lists_are_fresh(tmp_path) is fresh


def _install(module: FakeModule, monkeypatch: pytest.MonkeyPatch, *, fresh: bool, **params: Any) -> list[str]:  # noqa: ANN401
    monkeypatch.setattr(packages, "lists_are_fresh", lambda: fresh)
    packages.install(module, ["chrony"], {"recommends": False, "start_services": True, "files": [], **params})
    return [command.split()[-1] if "update" in command else "install" for command in module.commands]


@pytest.mark.parametrize(("fresh", "steps"), [(True, ["install"]), (False, ["update", "install"])])
def test_lists_are_fetched_when_stale(monkeypatch: pytest.MonkeyPatch, *, fresh: bool, steps: list[str]) -> None:
    module = FakeModule({})
    assert _install(module, monkeypatch, fresh=fresh) == steps
    assert "--no-install-recommends install chrony" in module.commands[-1]


def test_failure_with_fresh_lists_is_tried_once_more_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    module = FakeModule({"install": (100, "Reading...\nE: Unable to locate package chrony")})
    assert _install(module, monkeypatch, fresh=True) == ["install", "update", "install"]
    assert module.failure == "cannot install chrony: E: Unable to locate package chrony"


def test_dnf(monkeypatch: pytest.MonkeyPatch) -> None:
    module = FakeModule({}, programs=("rpm", "dnf"))
    _install(module, monkeypatch, fresh=True)
    assert module.commands == ["dnf --setopt=exit_on_lock=True -y --setopt=install_weak_deps=False install chrony"]


def test_files_are_installed_instead_of_names_and_what_comes_with_them_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = FakeModule({}, programs=("rpm", "dnf"))
    _install(module, monkeypatch, fresh=True, files=["/var/cache/gdrcopy.rpm"])
    assert module.commands[-1].endswith("install /var/cache/gdrcopy.rpm")
    assert "nogpgcheck" not in module.commands[-1]
