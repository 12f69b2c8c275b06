"""Tests of rejected exports and mounts."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.storage.problems import (
    export_problems,
    mount_problems,
    network_problems,
    served_paths,
)

SERVED = {"ctl": ["/shared"], "10.0.0.10": ["/shared"], "gpu1": [], "10.0.0.11": []}


def export(**more: object) -> dict[str, Any]:
    return {"path": "/shared", **more}


@pytest.mark.parametrize(
    "exports",
    [
        [export()],
        [export(), {"path": "/data", "options": ["ro", "fsid=0", "sec=sys:krb5p"], "mode": "2770", "group": "staff"}],
        [export(clients=["10.0.0.0/24", "10.0.0.1", "fd00::/64", "fd00::1", "ctl", "*.site.org", "@hpc"])],
        [{"path": "/shared"}, {"path": "/shared2"}],
        [export(mount=False, owner="alice")],
    ],
)
def test_valid_exports_are_accepted(exports: list[dict[str, Any]]) -> None:
    assert export_problems(["ctl"], exports) == []


@pytest.mark.parametrize(
    ("exports", "key", "words"),
    [
        ([], "nfs_server_exports", "no exports"),
        ("/shared", "nfs_server_exports", "is not a list"),
        (["/shared"], "nfs_server_exports", "without a path"),
        ([{"options": ["rw"]}], "nfs_server_exports", "without a path"),
        ([{"path": "/"}], "nfs_server_exports[/]", "root of the host cannot be exported"),
        ([{"path": "//"}], "nfs_server_exports[//]", "root of the host cannot be exported"),
        ([{"path": "shared"}], "nfs_server_exports[shared]", "not an absolute path"),
        ([{"path": "/a/../b"}], "nfs_server_exports[/a/../b]", "characters or parts"),
        ([{"path": "/a b"}], "nfs_server_exports[/a b]", "characters or parts"),
        ([{"path": "/etc/shared"}], "nfs_server_exports[/etc/shared]", "/etc is a system directory"),
        ([export(), {"path": "/shared/home"}], "nfs_server_exports", "/shared/home is inside /shared"),
        ([{"path": "/shared/home/x"}, export()], "nfs_server_exports", "/shared/home/x is inside /shared"),
        ([export(), {"path": "/shared/"}], "nfs_server_exports", "exports /shared twice"),
        ([export(clients=["*"])], "nfs_server_exports[/shared].clients", "* allows every host"),
        ([export(clients=["*.*"])], "nfs_server_exports[/shared].clients", "allows every host"),
        ([export(clients=["0.0.0.0/0"])], "nfs_server_exports[/shared].clients", "allows every host"),
        ([export(clients=["10.0.0.0/0"])], "nfs_server_exports[/shared].clients", "host bits set"),
        ([export(clients=["10.0.0.0/33"])], "nfs_server_exports[/shared].clients", "is not a network"),
        ([export(clients=["10.0.0.300"])], "nfs_server_exports[/shared].clients", "is not a network"),
        ([export(clients=["10.0.0.7/24"])], "nfs_server_exports[/shared].clients", "has host bits set"),
        ([export(clients=["ctl(rw)"])], "nfs_server_exports[/shared].clients", "not a network, address or host name"),
        ([export(clients=[])], "nfs_server_exports[/shared].clients", "is empty"),
        ([export(clients="10.0.0.1")], "nfs_server_exports[/shared].clients", "is not a list"),
        ([export(options=["rw,sync"])], "nfs_server_exports[/shared].options", "not an export option"),
        ([export(options=["root_squashed"])], "nfs_server_exports[/shared].options", "not an export option"),
        ([export(mode=0o755)], "nfs_server_exports[/shared].mode", "is not a file mode"),
        ([export(mode="rwx")], "nfs_server_exports[/shared].mode", "is not a file mode"),
        ([export(clinets=["10.0.0.1"])], "nfs_server_exports[/shared].clinets", "is not a known key"),
    ],
)
def test_invalid_exports_are_refused(exports: Any, key: str, words: str) -> None:  # noqa: ANN401 - any declared value
    (problem,) = export_problems(["ctl"], exports)
    assert problem["hosts"] == ["ctl"]
    assert problem["key"] == key
    assert any(word in problem["problem"] for word in words.split("|")), problem
    assert problem["remedy"]


@pytest.mark.parametrize(
    ("networks", "words"),
    [
        (["10.0.0.0/24", "fd00::/64"], []),
        ([], []),
        ("10.0.0.0/24", ["is not a list"]),
        (["10.0.0.1/24"], ["has host bits set"]),
        (["lan"], ["is not a network"]),
        (["0.0.0.0/0"], ["allows every host"]),
    ],
)
def test_networks(networks: Any, words: list[str]) -> None:  # noqa: ANN401
    found = network_problems(["ctl"], "cluster_networks", networks)
    assert len(found) == len(words)
    assert all(word in problem["problem"] for word, problem in zip(words, found, strict=True))


def mount(**more: object) -> dict[str, Any]:
    return {"src": "ctl:/shared", "path": "/shared", **more}


@pytest.mark.parametrize(
    "mounts",
    [
        [],
        [mount()],
        [mount(src="10.0.0.10:/shared/home", path="/home")],
        [mount(src="filer:/vol/data", path="/data", options=["ro", "vers=3"], automount=True)],
        [mount(), mount(src="filer:/x", path="/shared/x")],
    ],
)
def test_valid_mounts_are_accepted(mounts: list[dict[str, Any]]) -> None:
    assert mount_problems("gpu1", "nfs_client_mounts", mounts, SERVED) == []


@pytest.mark.parametrize(
    ("mounts", "key", "words"),
    [
        ({"src": "a:/b"}, "", "is not a list"),
        ([{"path": "/shared"}], "", "without src or path"),
        (["ctl:/shared"], "", "without src or path"),
        ([mount(src="ctl:/other")], "[/shared].src", "ctl does not export /other, only /shared"),
        ([mount(src="10.0.0.10:/share")], "[/shared].src", "does not export /share"),
        ([mount(src="gpu1:/shared")], "[/shared].src", "gpu1 exports nothing"),
        ([mount(src="ctl/shared")], "[/shared].src", "not of the form server:/path"),
        ([mount(path="shared")], "[shared]", "not an absolute path"),
        ([mount(path="/")], "[/]", "root of the host cannot be mounted over"),
        ([mount(path="/usr/local")], "[/usr/local]", "/usr is a system directory"),
        ([mount(), mount(path="/shared/")], "[/shared]", "duplicate"),
        ([mount(fstype="nfs")], "[/shared].fstype", "is not a known key"),
        ([mount(options=["rw sync"])], "[/shared].options", "not a mount option"),
        ([mount(options="rw")], "[/shared].options", "is not a list"),
    ],
)
def test_invalid_mounts_are_refused(mounts: Any, key: str, words: str) -> None:  # noqa: ANN401
    (problem,) = mount_problems("gpu1", "nfs_client_mounts", mounts, SERVED)
    assert problem["hosts"] == ["gpu1"]
    assert problem["key"] == f"nfs_client_mounts{key}"
    assert words in problem["problem"]
    assert problem["remedy"]


def test_mount_that_hides_an_export_is_refused() -> None:
    (problem,) = mount_problems("ctl", "nfs_client_mounts", [mount(src="filer:/x")], SERVED, ["/shared"])
    assert "would hide /shared" in problem["problem"]


@pytest.mark.parametrize(
    ("entry", "key", "words"),
    [
        ({"type": "gpfs", "src": "fs", "path": "/fs"}, "[/fs].type", "'gpfs' is not supported"),
        ({"src": "fs", "path": "/fs"}, "[/fs].type", "None is not supported"),
        (
            {"type": "cephfs", "src": "mon:/", "path": "/c", "options": ["name=a", "secret=AQDx"]},
            "[/c].options",
            "contains a secret",
        ),
    ],
)
def test_invalid_external_storage_is_refused(entry: dict[str, Any], key: str, words: str) -> None:
    (problem,) = mount_problems("gpu1", "storage_mounts_entries", [entry], SERVED)
    assert problem["key"] == f"storage_mounts_entries{key}"
    assert words in problem["problem"]
    assert "AQDx" not in str(problem)


def test_served_paths_are_listed_under_every_name() -> None:
    names = {"ctl": ["10.0.0.10", "storage"], "gpu1": ["10.0.0.11"]}
    served = served_paths(names, {"ctl": [{"path": "/shared/"}]}, ["ctl", "gpu1"])
    assert served["storage"] == served["10.0.0.10"] == served["ctl"] == ["/shared"]
    assert served["10.0.0.11"] == []


def test_nfs_4_root_is_served_as_slash() -> None:
    exports = {"ctl": [{"path": "/srv/nfs4", "options": ["rw", "fsid=0"]}]}
    served = served_paths({"ctl": []}, exports, ["ctl"])
    assert served["ctl"] == ["/srv/nfs4", "/"]
    assert mount_problems("gpu1", "nfs_client_mounts", [{"src": "ctl:/home", "path": "/home"}], served) == []
