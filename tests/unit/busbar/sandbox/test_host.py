"""Tests of the requirements of the sandbox on its host."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from busbar.errors import UsageError
from busbar.sandbox import host


@pytest.mark.parametrize(
    ("cgroup", "installed", "chosen"),
    [
        ("v1", {"crun", "runc"}, "runc"),
        ("v1", {"runc"}, "runc"),
        ("v2", {"crun", "runc"}, "crun"),
        ("v2", {"runc"}, "runc"),
    ],
)
def test_runtime_depends_on_the_cgroups_of_the_host(
    tmp_path: Path,
    cgroup: str,
    installed: set[str],
    chosen: str,
) -> None:
    if cgroup == "v2":
        (tmp_path / "cgroup.controllers").touch()
    assert host.choose_runtime(tmp_path, lambda name: name if name in installed else None) == chosen


@pytest.mark.parametrize(("cgroup", "installed"), [("v1", "crun"), ("v1", ""), ("v2", "")])
def test_missing_runtime_is_reported(tmp_path: Path, cgroup: str, installed: str) -> None:
    if cgroup == "v2":
        (tmp_path / "cgroup.controllers").touch()
    with pytest.raises(UsageError, match="apt-get install runc"):
        host.choose_runtime(tmp_path, lambda name: name if name == installed else None)


@pytest.mark.parametrize(
    ("files", "processes", "options"),
    [
        (20000, 96000, ["--ulimit=nofile=20000:20000", "--ulimit=nproc=20000:20000"]),
        (4194304, 500, ["--ulimit=nofile=1048576:1048576", "--ulimit=nproc=500:500"]),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, ["--ulimit=nofile=1048576:1048576"]),
    ],
)
def test_limits_stay_within_the_hosts(
    monkeypatch: pytest.MonkeyPatch, files: int, processes: int, options: list[str]
) -> None:
    hard = {resource.RLIMIT_NOFILE: files, resource.RLIMIT_NPROC: processes}
    monkeypatch.setattr(resource, "getrlimit", lambda what: (0, hard[what]))
    assert host.ulimits() == options


def test_missing_tools_are_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(UsageError, match=r"iproute2 iptables mmdebstrap .*podman.*scripts/setup --sandbox"):
        host.check_host()


def test_not_root_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="sudo"):
        host.check_host()


def test_failed_program_shows_its_last_line() -> None:
    with pytest.raises(UsageError, match=r"sh -c .* failed \(3\): the reason"):
        host.run("sh", "-c", "echo first >&2; echo the reason >&2; exit 3")


def test_too_few_inotify_instances_are_refused_with_the_sysctl_key() -> None:
    left = iter([*(os.open(os.devnull, os.O_RDONLY) for _ in range(7)), -1])
    with pytest.raises(UsageError, match=r"2 more nodes need 12 .* only 7 .*sysctl -w fs.inotify.max_user_instances="):
        host.check_watchers(2, lambda: next(left))
    assert list(left) == []


def test_inotify_instances_of_the_check_are_closed() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    host.check_watchers(1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
