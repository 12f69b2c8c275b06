"""Tests of the packages module with fake package managers."""

from __future__ import annotations

import os
import time
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common import host_packages
from ansible_collections.busbar.cluster.plugins.module_utils.common.baseline import COMMENT
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_commands import lists_are_fresh
from ansible_collections.busbar.cluster.plugins.modules import packages

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., dict[str, Any]]

OLD, NEW = "570.133.20-1", "580.95.05-1"
NCCL = "2.27.5-1+cuda12.9"
DEFAULTS = {key: option.get("default") for key, option in packages.OPTIONS.items()}


class Ended(Exception):  # noqa: N818 - simulates exit_json and fail_json
    """Raised when the module ends, with or without an error."""


class Host:
    """A fake host: installed and held packages, the repositories' packages, and the commands."""

    programs: tuple[str, ...] = ()

    def __init__(self, available: dict[str, list[str]], *installed: str, held: tuple[str, ...] = ()) -> None:
        """Store the packages; installed ones as name=version."""
        self.available = available
        self.installed = dict(each.split("=", 1) for each in installed)
        self.held = set(held)
        self.broken = self.check_mode = False
        self.commands: list[str] = []
        self.params: dict[str, Any] = {}
        self.result: dict[str, Any] = {}

    def get_bin_path(self, name: str) -> str | None:
        """Return the path of a program."""
        return name if name in self.programs else None

    def exit_json(self, **result: object) -> None:
        """Raise the result."""
        self.result = result
        raise Ended

    def fail_json(self, **result: object) -> None:
        """Raise the message."""
        raise Ended(result["msg"])

    def install(self, name: str, version: str) -> None:
        """Install a package; a changed version is no longer held."""
        if self.installed.get(name) != version:
            self.held.discard(name)
        self.installed[name] = version


class Debian(Host):
    """A host with apt."""

    programs = ("apt-get", "dpkg-query")

    def run_command(self, command: list[str], **_: object) -> tuple[int, str, str]:
        """Apply the command to the fake host."""
        self.commands.append(" ".join(word for word in command if word != COMMENT))
        program, rest = command[0], command[1:]
        if program == "dpkg-query":
            shown = [name for name in self.installed if any(fnmatchcase(name, each) for each in rest[3:])]
            states = ((name, "hold" if name in self.held else "install") for name in shown)
            return 0, "".join(f"{name}\t{self.installed[name]}\t{state}\tinstalled\n" for name, state in states), ""
        if program == "apt-cache":
            lines = [f"{name} | {each} | url Packages\n" for name in rest[1:] for each in self.available.get(name, [])]
            return 0, "".join(lines), ""
        if program == "apt-mark":
            change = self.held.update if rest[0] == "hold" else self.held.difference_update
            change(rest[1:])
            return 0, "", ""
        return self.apt_get(rest)

    def apt_get(self, words: list[str]) -> tuple[int, str, str]:
        """Install, change and remove packages."""
        if words[-1] == "update":
            return 0, "", ""
        asked = [word for word in words[words.index("install") + 1 :] if word != "--simulate"]
        if "--simulate" in words:
            return 0, "".join(f"Remv {word[:-1]} [1]\n" for word in asked if word.endswith("-")), ""
        unknown = [word for word in asked if word[-1] != "-" and "=" not in word and word not in self.available]
        if self.broken or unknown:
            return 100, f"Reading...\nE: Unable to locate package {(unknown or asked)[0]}", ""
        for word in asked:
            name, _, version = word.partition("=")
            if word.endswith("-"):
                self.installed.pop(word[:-1], None)
            else:
                self.install(name, version or self.available[name][0])
        return 0, "", ""


@pytest.fixture(autouse=True)
def _host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "clear_policy", lambda: False)
    monkeypatch.setattr(host_packages, "lists_are_fresh", lambda: True)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the module on a host and return its result; a failure is raised."""

    def run(host: Host, *, check: bool = False, **params: object) -> dict[str, Any]:
        host.commands, host.check_mode, host.result = [], check, {}
        host.params = DEFAULTS | params
        monkeypatch.setattr(packages, "AnsibleModule", lambda **_: host)
        try:
            packages.main()
        except Ended:
            if not host.result:
                raise
        return host.result

    return run


def wanted(name: str, version: str = "", *, hold: bool | None = None) -> dict[str, Any]:
    return {"name": name, "version": version, "hold": hold}


def changing(host: Host) -> list[str]:
    """Return the commands that change something."""
    return [line for line in host.commands if not line.startswith(("dpkg-query", "apt-cache", "rpm"))]


DRIVER: dict[str, Any] = {
    "packages": [wanted("nvidia-driver-cuda", NEW, hold=True), wanted("nvlsm", hold=True)],
    "family": {"names": ["nvidia-*", "libnv*"], "version": "580.95.05"},
    "absent": ["nvidia-fabricmanager-570"],
}


@pytest.mark.parametrize(
    "params",
    [
        {"name": ["chrony", "tzdata"]},
        {"packages": [wanted("nccl", NCCL, hold=True), wanted("chrony", hold=False)], "absent": ["old*"]},
        {"name": ["tzdata"], "packages": [wanted("nccl", "2.27.*")], "family": {"names": ["chr*"], "version": "9"}},
    ],
)
def test_one_query_covers_all_correct_packages(run: Run, params: dict[str, Any]) -> None:
    host = Debian({}, "chrony=4.6", "tzdata=1:2025", f"nccl={NCCL}", held=("nccl",))
    assert run(host, **params) == {"changed": False, "installed": [], "removed": [], "held": [], "diff": []}
    assert len(host.commands) == 1


def test_empty_declaration_runs_no_command(run: Run) -> None:
    host = Debian({}, "chrony=4.6")
    assert not run(host)["changed"]
    assert host.commands == []


def test_missing_packages_are_installed_and_others_kept(run: Run) -> None:
    host = Debian({"chrony": ["4.7"], "tzdata": ["2026"]}, "tzdata=2025")
    result = run(host, name=["procps", "chrony", "tzdata"][1:])
    assert result["installed"] == ["chrony"]
    assert result["diff"][0]["after"] == "chrony 4.7\n"
    assert host.installed == {"tzdata": "2025", "chrony": "4.7"}
    (command,) = changing(host)
    assert command.endswith("--no-install-recommends install chrony")
    assert "--allow" not in command, "what is held or newer is nobody's to move for the sake of a missing package"


def test_check_mode_reports_and_changes_nothing(run: Run) -> None:
    host = Debian({}, f"nvidia-driver-cuda={OLD}", f"libnvidia-ml1={OLD}", "nvidia-fabricmanager-570=1")
    result = run(host, check=True, name=["chrony"], **DRIVER)
    assert result["changed"]
    assert result["installed"] == ["chrony", f"nvidia-driver-cuda={NEW}", "nvlsm"]
    assert result["removed"] == ["nvidia-fabricmanager-570"]
    assert result["held"] == ["nvidia-driver-cuda", "nvlsm"]
    assert result["diff"][0]["before"] == f"nvidia-driver-cuda {OLD}\nnvidia-fabricmanager-570 1\n"
    assert result["diff"][0]["after"].splitlines() == [
        "chrony the newest",
        f"nvidia-driver-cuda {NEW} held",
        "nvlsm the newest held",
    ]
    assert changing(host) == []


@pytest.mark.parametrize(("fresh", "steps"), [(True, ["install"]), (False, ["update", "install"])])
def test_stale_package_lists_are_fetched(
    run: Run, monkeypatch: pytest.MonkeyPatch, *, fresh: bool, steps: list[str]
) -> None:
    monkeypatch.setattr(host_packages, "lists_are_fresh", lambda: fresh)
    host = Debian({"chrony": ["4.7"]})
    run(host, name=["chrony"])
    assert [line.split()[-1].replace("chrony", "install") for line in changing(host)] == steps


def test_failure_with_fresh_lists_is_retried_once_and_reported(run: Run) -> None:
    host = Debian({})
    with pytest.raises(Ended, match=r"^cannot install chrony: E: Unable to locate package chrony$"):
        run(host, name=["chrony"])
    assert [line.split()[-1] for line in changing(host)] == ["chrony", "update", "chrony"]


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


def test_versions_removals_and_installs_are_one_transaction(run: Run) -> None:
    host = Debian(
        {"libnccl2": ["2.28-1", NCCL], "dcgm": ["1:4.4-1"], "chrony": ["4.7"]},
        *("libnccl2=2.28-1", "old=1", "cudnn=9-1"),
        held=("libnccl2",),
    )
    both = [wanted("libnccl2", "2.27.5", hold=True), wanted("dcgm", "4.4-1"), wanted("cudnn", "9-1", hold=False)]
    result = run(host, packages=both, absent=["ol?"], name=["chrony"])
    (command,) = [line for line in changing(host) if " install " in line]
    assert "--no-install-recommends --allow-downgrades --allow-change-held-packages install" in command
    assert command.endswith(f" install chrony cudnn=9-1 libnccl2={NCCL} dcgm=1:4.4-1 old-")
    assert host.installed == {"libnccl2": NCCL, "dcgm": "1:4.4-1", "cudnn": "9-1", "chrony": "4.7"}
    assert host.held == {"libnccl2"}, "what was held and moved is held again"
    assert (result["removed"], result["held"]) == (["old"], [])


def test_hold_alone_is_not_a_transaction(run: Run) -> None:
    host = Debian({}, f"libnccl2={NCCL}", "dcgm=1", held=("dcgm",))
    result = run(host, packages=[wanted("libnccl2", hold=True), wanted("dcgm", hold=False)])
    assert changing(host) == ["apt-mark unhold dcgm", "apt-mark hold libnccl2"]
    assert (result["installed"], result["held"]) == ([], ["libnccl2"])
    assert result["diff"][0]["after"] == f"dcgm 1\nlibnccl2 {NCCL} held\n"


def test_transaction_that_affects_the_driver_is_refused(run: Run) -> None:
    host = Debian({"libnccl2": [NCCL]}, "nvidia-driver-570=570")
    with pytest.raises(Ended, match=r"would also change nvidia-driver-570\. Nothing was changed\n    remedy: "):
        run(host, packages=[wanted("libnccl2", NCCL)], absent=["nvidia-driver-*"], protect=["nvidia-driver*"])
    assert host.installed == {"nvidia-driver-570": "570"}


def test_unavailable_version_is_reported_with_the_available_ones(run: Run) -> None:
    host = Debian({"libnccl2": ["2.28-1", NCCL]})
    known = r"2\.28-1, 2\.27\.5-1\+cuda12\.9"
    with pytest.raises(Ended, match=rf"no such version: libnccl2 9\.9 \(known: {known}\)\n +remedy"):
        run(host, packages=[wanted("libnccl2", "9.9")])
    assert [line.split()[-1] for line in changing(host)] == ["update"]


def test_driver_packages_change_together_and_are_all_held(run: Run) -> None:
    host = Debian(
        {"nvidia-driver-cuda": [NEW, OLD], "nvlsm": ["2025.10-1"]},
        *(f"nvidia-driver-cuda={OLD}", f"libnvidia-ml1={NEW}", "nvidia-fabricmanager-570=1", "linux-image-amd64=6.12"),
        *("nvidia-container-toolkit=1.18.0-1",),
        held=("nvidia-driver-cuda", "libnvidia-ml1", "linux-image-amd64"),
    )
    result = run(host, **DRIVER)
    unhold, command, *marks = changing(host)
    assert unhold == "apt-mark unhold libnvidia-ml1 nvidia-driver-cuda"
    assert command.endswith(f"install nvlsm nvidia-driver-cuda={NEW} nvidia-fabricmanager-570-")
    assert all(line.startswith("apt-mark hold ") for line in marks)
    assert host.held == {"libnvidia-ml1", "nvidia-driver-cuda", "nvlsm", "linux-image-amd64"}
    assert result["held"] == ["nvlsm"]
    assert not run(host, **DRIVER)["changed"]


def test_failed_transaction_keeps_the_holds(run: Run) -> None:
    host = Debian({"nvidia-driver-cuda": [NEW]}, f"nvidia-driver-cuda={OLD}", held=("nvidia-driver-cuda",))
    host.broken = True
    with pytest.raises(
        Ended, match=r"cannot install .*nvidia-driver-cuda=580.95.05-1.*\n    remedy: check the available versions"
    ):
        run(host, packages=[wanted("nvidia-driver-cuda", NEW, hold=True)], family=DRIVER["family"])
    assert host.held == {"nvidia-driver-cuda"}


def test_remaining_differences_are_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Debian({"libnccl2": [NCCL]})
    monkeypatch.setattr(host, "install", lambda *_: None)
    with pytest.raises(Ended, match=rf"differ from the declaration: libnccl2={NCCL.replace('+', '.')}"):
        run(host, packages=[wanted("libnccl2", NCCL)])


def test_policy_left_by_a_killed_install_is_removed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "clear_policy", lambda: True)
    result = run(Debian({}, "chrony=4.6"), name=["chrony"])
    assert result["changed"]
    assert result["diff"][0]["before_header"] == "/usr/sbin/policy-rc.d"
