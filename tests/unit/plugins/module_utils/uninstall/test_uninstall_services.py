"""Tests of reloads and restarts of remaining services during the uninstallation."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.uninstall import services
from ansible_collections.busbar.cluster.plugins.module_utils.uninstall.services import ServicesOfHost

SERVICE = "nfs-server.service"
EXPORTS, SETTINGS = "/etc/exports.d/busbar.exports", "/etc/nfs.conf.d/busbar.conf"
WITHDRAW, STOP, START = ["exportfs", "-ra"], ["systemctl", "stop", SERVICE], ["systemctl", "start", SERVICE]


class Server(ServicesOfHost):
    """A host with or without an NFS server."""

    def __init__(self, paths: list[str], *, active: list[str], stays: bool) -> None:
        """Store the files that busbar wrote and the units that ran before."""
        self.told: list[object] = []
        module: Any = SimpleNamespace(check_mode=False, get_bin_path=lambda name: f"/sbin/{name}" if stays else None)
        self.module, self.entries = module, {path: ["any"] for path in paths}
        self.baseline = {"units": {}, "active": active}

    def output(self, *words: str) -> str:
        """Record a command."""
        self.told.append(list(words))
        return ""


@pytest.mark.parametrize(
    ("paths", "active", "stays", "told"),
    [
        ([EXPORTS, SETTINGS], [SERVICE], True, [WITHDRAW, STOP, "versions", START]),
        ([EXPORTS], [SERVICE], True, [WITHDRAW]),
        ([EXPORTS, SETTINGS], [], True, [WITHDRAW]),
        ([EXPORTS, SETTINGS], [], False, []),
        (["/etc/hosts"], [SERVICE], True, []),
    ],
    ids=[
        "a server of before",
        "its exports alone",
        "one that stood still",
        "a server of busbar",
        "no server of busbar",
    ],
)
def test_preexisting_nfs_server_gets_its_previous_exports(
    paths: list[str], active: list[str], told: list[object], monkeypatch: pytest.MonkeyPatch, *, stays: bool
) -> None:
    host = Server(paths, active=active, stays=stays)
    monkeypatch.setattr(services, "allow_nfs_versions", lambda: host.told.append("versions"))
    host.reload()
    assert host.told == told


def test_nfs_versions_are_written_line_by_line_and_unsupported_ones_skipped() -> None:
    given: list[str] = []

    def write_text(text: str, *, encoding: str) -> None:
        given.append(text)
        if text == "+3\n":
            raise OSError(errno.EINVAL, encoding)

    control: Any = SimpleNamespace(write_text=write_text)
    services.allow_nfs_versions(control)
    assert given == ["+3\n", "+4.0\n", "+4.1\n", "+4.2\n"]
