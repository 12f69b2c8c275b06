"""Tests of node_pull with real signatures and a real web server; only the playbook run is simulated."""

from __future__ import annotations

import dataclasses
import functools
import http.server
import io
import json
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from busbar.image import bundle
from script_modules import script_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = Path(__file__).resolve().parents[3] / "roles/node_pull/files/node_pull"
CLUSTER = "trial"


node_pull = script_module(PROGRAM)


def make_key(folder: Path, name: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    return folder / name


def content(text: str) -> bytes:
    """Return an archive with one file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo("said")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def said(archive: Path) -> str:
    with tarfile.open(archive) as tar:
        file = tar.extractfile("said")
        assert file is not None
        return file.read().decode()


class Node:
    """A node, the bundles that are served to it, and the bundles that it applied."""

    def __init__(self, folder: Path, url: str, served: Path) -> None:
        """Create a trusted key."""
        self.served, self.folder = served, folder
        self.key = make_key(folder, "key")
        self.signers = folder / "signers"
        public = self.key.with_suffix(".pub").read_text()
        self.signers.write_text(f'{CLUSTER} namespaces="busbar-bundle" {public}')
        state, shipped = folder / "state", folder / "shipped"
        self.settings = node_pull.Settings(CLUSTER, url, 0.0, self.signers, state, shipped)
        self.ran: list[str] = []

    def serve(self, text: str, serial: int, *, key: Path | None = None, cluster: str = CLUSTER) -> bundle.Bundle:
        """Publish a bundle that contains a text."""
        return bundle.publish(content(text), cluster, key or self.key, self.served, serial)

    def ship(self, text: str, serial: int) -> None:
        """Put a bundle into the image."""
        bundle.publish(content(text), CLUSTER, self.key, self.folder / "shipped", serial)

    def pull(self) -> dict[str, Any]:
        """Pull as at boot; the simulated run fails only for the text "bad"."""

        def run(archive: Path, name: str) -> tuple[bool, str]:
            assert name == "gpu1"
            self.ran.append(said(archive))
            return "bad" not in self.ran[-1], "a task failed" if "bad" in self.ran[-1] else ""

        self.ran = []
        outcome: dict[str, Any] = node_pull.pull(self.settings, "gpu1", run)
        return outcome

    def forget(self) -> None:
        """Remove the state, as a boot without a disk does."""
        shutil.rmtree(self.folder / "state")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Yield a node that trusts a key, with a web server."""
    served = tmp_path / "served"
    served.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Node(tmp_path, f"http://127.0.0.1:{server.server_port}", served)
        server.shutdown()
        thread.join()


def test_signed_bundle_is_applied_at_each_boot(node: Node) -> None:
    node.serve("first", 5)
    for _ in range(2):
        assert node.pull() == {"result": "applied", "serial": 5, "reason": ""}
        assert node.ran == ["first"]
    node.serve("second", 6)
    assert node.pull()["serial"] == 6


def unsigned(node: Node) -> None:
    node.serve("evil", 7)
    path = node.served / bundle.SIGNED
    path.write_text(path.read_text().partition(bundle.MARK)[0])


def other_key(node: Node) -> None:
    node.serve("evil", 7, key=make_key(node.folder, "other"))


def other_purpose(node: Node) -> None:
    """Sign with the right key, but in another namespace, such as git's for commits."""
    node.serve("evil", 7)
    path = node.served / bundle.SIGNED
    text = path.read_text().partition(bundle.MARK)[0]
    command = ["ssh-keygen", "-Y", "sign", "-q", "-n", "git", "-f", str(node.key)]
    path.write_text(text + subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout)


def altered_manifest(node: Node) -> None:
    node.serve("evil", 7)
    path = node.served / bundle.SIGNED
    path.write_text(path.read_text().replace('"serial": 7', '"serial": 8'))


def other_cluster(node: Node) -> None:
    """Sign a bundle of another cluster of the site with the same key."""
    node.serve("evil", 7, cluster="other")


def older(node: Node) -> None:
    node.serve("evil", 4)


def cut_short(node: Node) -> None:
    made = node.serve("evil", 7)
    path = node.served / f"bundle-{made.sha256}.tar.gz"
    path.write_bytes(path.read_bytes()[:-10])


def altered_archive(node: Node) -> None:
    made = node.serve("evil", 7)
    path = node.served / f"bundle-{made.sha256}.tar.gz"
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def too_long(node: Node) -> None:
    made = node.serve("evil", 7)
    path = node.served / f"bundle-{made.sha256}.tar.gz"
    path.write_bytes(path.read_bytes() + b"x")


def no_manifest(node: Node) -> None:
    node.serve("evil", 7)
    (node.served / bundle.SIGNED).write_bytes(b"\0" * 100_000)


REFUSED: dict[str, tuple[Callable[[Node], None], str]] = {
    "unsigned": (unsigned, "the bundle is not signed"),
    "signed by another key": (other_key, "the bundle is not signed by cluster trial"),
    "signed for another purpose": (other_purpose, "the bundle is not signed by cluster trial"),
    "altered manifest": (altered_manifest, "the bundle is not signed by cluster trial"),
    "of another cluster": (other_cluster, "the bundle belongs to cluster other; this node belongs to trial"),
    "older": (older, "the bundle is older than a previous one (found serial 4, expected 5+)"),
    "cut short": (cut_short, "the bundle is truncated or altered"),
    "altered archive": (altered_archive, "its SHA-256 differs"),
    "longer": (too_long, "is larger than"),
    "no manifest": (no_manifest, "is larger than"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_bundle_is_not_applied_and_the_last_good_one_remains(node: Node, name: str) -> None:
    node.serve("good", 5)
    assert node.pull()["result"] == "applied"
    make, reason = REFUSED[name]
    # An attacker who serves a forged bundle may have removed the real one.
    shutil.rmtree(node.served)
    make(node)
    outcome = node.pull()
    assert (outcome["result"], outcome["serial"]) == ("refused", 5), outcome
    assert reason in outcome["reason"]
    assert node.ran == ["good"]


def test_failed_bundle_is_replaced_by_the_last_good_one(node: Node) -> None:
    node.serve("good", 5)
    node.pull()
    node.serve("bad", 6)
    outcome = node.pull()
    assert outcome == {"result": "failed", "serial": 5, "reason": "serial 6: a task failed"}
    assert node.ran == ["bad", "good"]
    # A bundle with a serial below that of the failed one is still refused.
    node.serve("between", 5)
    assert node.pull()["result"] == "refused"
    node.serve("mended", 7)
    assert node.pull() == {"result": "applied", "serial": 7, "reason": ""}


def test_diskless_node_refuses_bundles_older_than_its_image(node: Node) -> None:
    node.ship("shipped", 5)
    node.serve("evil", 4)
    outcome = node.pull()
    assert (outcome["result"], outcome["serial"]) == ("refused", 5)
    assert node.ran == ["shipped"]
    # Without state, an older serial cannot be detected, as docs/images.md states.
    node.serve("newer", 9)
    assert node.pull()["serial"] == 9
    node.forget()
    node.serve("old", 6)
    assert node.pull()["serial"] == 6


def test_without_a_server_the_last_good_bundle_is_applied(node: Node) -> None:
    node.ship("shipped", 5)
    outcome = node.pull()
    assert (outcome["result"], outcome["serial"]) == ("unreachable", 5)
    node.serve("good", 6)
    node.pull()
    shutil.rmtree(node.served)
    outcome = node.pull()
    assert (outcome["result"], outcome["serial"]) == ("unreachable", 6)
    assert node.ran == ["good"]


def test_damaged_bundle_on_the_disk_is_ignored(node: Node) -> None:
    node.ship("shipped", 5)
    node.serve("good", 6)
    node.pull()
    archive = next((node.folder / "state/pull/good").glob("bundle-*"))
    archive.write_bytes(archive.read_bytes()[:20])
    shutil.rmtree(node.served)
    outcome = node.pull()
    assert (outcome["result"], outcome["serial"], node.ran) == ("unreachable", 5, ["shipped"])


def test_without_any_bundle_nothing_is_applied(node: Node) -> None:
    outcome = node.pull()
    assert (outcome["result"], outcome["serial"], node.ran) == ("unreachable", 0, [])


@pytest.mark.parametrize(
    ("name", "kind"), [("../evil", tarfile.REGTYPE), ("/evil", tarfile.REGTYPE), ("e", tarfile.SYMTYPE)]
)
def test_archive_with_links_or_paths_outside_its_folder_is_refused(tmp_path: Path, name: str, kind: bytes) -> None:
    archive = tmp_path / "archive.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc"
        tar.addfile(member)
    with pytest.raises(node_pull.RefusedError, match="not a regular file inside its folder"):
        node_pull.unpack(archive, tmp_path / "unpacked")
    assert list((tmp_path / "unpacked").iterdir()) == []


def test_bundle_for_a_newer_python_is_refused(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bundle.PYTHON, bundle.ansible_version(), (9, 1))
    node.serve("evil", 5)
    assert "needs Python 9.1" in node.pull()["reason"]


def test_host_key_is_kept_in_the_state_directory(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.mkdir()
    settings = dataclasses.replace(
        node_pull.Settings(CLUSTER, "http://x", 0.0, tmp_path, tmp_path / "state", tmp_path),
    )
    first = node_pull.take_identity(settings, ssh)
    key = ssh / "ssh_host_ed25519_key"
    assert "SHA256:" in first
    assert key.stat().st_mode & 0o777 == 0o600
    key.unlink()
    assert node_pull.take_identity(settings, ssh) == first
    shutil.rmtree(tmp_path / "state")
    assert node_pull.take_identity(settings, ssh) != first


def test_program_reads_the_settings_of_the_role(tmp_path: Path) -> None:
    template = PROGRAM.parents[1] / "templates/etc/busbar/node_pull.json.j2"
    keys = {field.name for field in dataclasses.fields(node_pull.Settings)}
    assert all(f"'{key}':" in template.read_text() for key in keys)
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(dict.fromkeys(keys, "1")))
    assert node_pull.read_settings(path).patience_s == 1.0


TASKS = """
TASK [busbar.cluster.hosts : configure | Write /etc/hosts] *************
changed: [gpu1]

TASK [busbar.cluster.hosts : configure | Set the time zone] ********************
"""


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (
            TASKS + 'fatal: [gpu1]: FAILED! => {"changed": false, "msg": "there is no \\"No/Where\\"", "path": "x"}',
            "task 'hosts : configure | Set the time zone' failed: there is no \"No/Where\"",
        ),
        (
            TASKS + "[ERROR]: Task failed: no such filter",
            "task 'hosts : configure | Set the time zone' failed: [ERROR]",
        ),
        ("[ERROR]: the playbook could not be found", "[ERROR]: the playbook could not be found"),
        (TASKS + "changed: [gpu1]", ""),
        ("", ""),
    ],
)
def test_reason_of_a_failure_names_the_task(log: str, told: str) -> None:
    said = node_pull.failed_task(log)
    assert said.startswith(told)
    assert bool(said) == bool(told)


@pytest.mark.filterwarnings("error")
def test_unpacking_a_bundle_gives_no_warning(tmp_path: Path) -> None:
    (tmp_path / "bundle.tar.gz").write_bytes(content("all is well"))
    node_pull.unpack(tmp_path / "bundle.tar.gz", tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "said").read_text() == "all is well"


UNSET = "0.0.0.0"  # noqa: S104 - means that DHCP gave no server
NET = "DEVICE='ens2'\nIPV4ADDR='10.0.0.11'\nIPV4DNS0='{}'\nIPV4DNS1='{}'\nDNSDOMAIN='{}'\nDOMAINSEARCH=''\n"


@pytest.mark.parametrize(
    ("told", "written"),
    [
        (("10.0.0.2", "10.0.0.3", ""), "nameserver 10.0.0.2\nnameserver 10.0.0.3\n"),
        (("10.0.0.2", UNSET, "hall.example"), "search hall.example\nnameserver 10.0.0.2\n"),
        ((UNSET, UNSET, ""), None),
        (("$(id)", "", "a\tb"), None),
    ],
)
def test_resolv_conf_gets_the_dns_servers_of_dhcp(
    tmp_path: Path, told: tuple[str, str, str], written: str | None
) -> None:
    (tmp_path / "net-ens2.conf").write_text(NET.format(*told))
    target = tmp_path / "resolv.conf"
    node_pull.take_resolver(tmp_path, target)
    assert (target.read_text() if target.exists() else None) == written


def test_existing_resolv_conf_is_kept(tmp_path: Path) -> None:
    (tmp_path / "net-ens2.conf").write_text(NET.format("10.0.0.2", UNSET, ""))
    target = tmp_path / "resolv.conf"
    target.write_text("# by hand\nnameserver 10.9.9.9\n")
    assert node_pull.take_resolver(tmp_path, target) == []
    assert target.read_text() == "# by hand\nnameserver 10.9.9.9\n"
