"""Tests of the central journal: no entry is lost, and the client certificate determines where entries are stored."""

from __future__ import annotations

import contextlib
import http.client
import os
import ssl
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.access import tls_certificate as tls
from conftest import recap
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("journal_remote")

STORE = "/var/log/journal/remote"
TIDY = "/usr/local/lib/busbar/journal_tidy"
# systemd-journal-remote drops entries without these three fields.
HEAD = b"__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=1000000\n_BOOT_ID=0123456789abcdef0123456789abcdef\n"
ENTRY = HEAD % 1760000000000000 + b"MESSAGE=by hand\n_HOSTNAME=gpu1\n\n"


def journals(sandbox: Cluster, *arguments: str) -> str:
    """Run the journal tasks of the playbook and return the output."""
    options = ("-e", "journal_remote_enabled=true", *arguments)
    limit = ("--limit", "ctl,gpu1")
    done = sandbox.playbook("monitoring.yml", "--tags", "tls,journal_remote", *limit, *options)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def sent(sandbox: Cluster) -> Iterator[None]:
    """Enable sending and receiving of journals; everything is removed at the end."""
    journals(sandbox)
    yield
    journals(sandbox, "-e", "journal_remote_enabled=false")
    assert sandbox.exec("gpu1", "systemctl is-active systemd-journal-upload", check=False).stdout == "inactive\n"
    assert sandbox.exec("ctl", "systemctl list-units --no-legend --all 'busbar-journal*'").stdout == ""
    sandbox.exec("ctl", f"rm -rf {STORE}")


def arrives(sandbox: Cluster, text: str, timeout: float = 40) -> None:
    """Wait until a message of gpu1 is found on the receiving host."""
    search = f"journalctl -q -D {STORE}/gpu1 _HOSTNAME=gpu1 -t busbar-test -o cat -n 50"
    sandbox.wait_until(lambda: text in sandbox.exec("ctl", search, check=False).stdout, f"{text} is lost", timeout)


@pytest.mark.scenario
def test_message_of_a_node_is_found_on_the_monitoring_host(sandbox: Cluster) -> None:
    sandbox.exec("gpu1", "logger -t busbar-test here-i-am")
    arrives(sandbox, "here-i-am")


def test_messages_are_delivered_after_the_receiver_was_down(sandbox: Cluster) -> None:
    sandbox.exec("ctl", "systemctl stop busbar-journal-tls")
    try:
        sandbox.exec("gpu1", "logger -t busbar-test nobody-listens")
        failed = "systemctl show -P NRestarts systemd-journal-upload"
        sandbox.wait_until(lambda: int(sandbox.exec("gpu1", failed).stdout) > 0, "the sender does not notice", 30)
        sandbox.exec("gpu1", "logger -t busbar-test still-nobody")
    finally:
        sandbox.exec("ctl", "systemctl start busbar-journal-tls")
    arrives(sandbox, "nobody-listens", 90)
    arrives(sandbox, "still-nobody")


def upload(sandbox: Cluster, ca: str, pair: tuple[Path, Path] | None, entry: bytes = ENTRY) -> int:
    """Send entries from this machine and return the HTTP status."""
    context = ssl.create_default_context(cadata=ca)
    if pair:
        context.load_cert_chain(*pair)
    address = sandbox.exec("ctl", "getent ahostsv4 ctl | awk 'NR==1 {print $1}'").stdout.strip()
    connection = http.client.HTTPSConnection(address, 19532, timeout=10, context=context)
    connection.request("POST", "/upload", entry, {"Content-Type": "application/vnd.fdo.journal"})
    return connection.getresponse().status


def test_only_cluster_hosts_may_send(sandbox: Cluster, tmp_path: Path) -> None:
    ca = sandbox.exec("gpu1", "cat /etc/busbar/tls/ca.crt").stdout
    own = tmp_path / "own.crt", tmp_path / "own.key"
    for path in own:
        path.write_text(sandbox.exec("gpu1", f"cat /etc/busbar/tls/host.{path.suffix[1:]}").stdout)
    assert upload(sandbox, ca, own) == http.client.ACCEPTED
    key, now = ec.generate_private_key(ec.SECP256R1()), int(time.time())
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    foreign = tmp_path / "foreign.crt", tmp_path / "foreign.key"
    foreign[0].write_text(tls.sign_host(line, tls.make_authority("other", now), names=["gpu1"], now=now, days=1))
    pem = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    foreign[1].write_bytes(key.private_bytes(*pem))
    for pair in (foreign, None):
        assert upload(sandbox, ca, pair) == http.client.BAD_REQUEST
    stranger = tmp_path / "stranger.crt", foreign[1]
    authority = (sandbox.state / "secrets" / "tls_ca").read_text(encoding="utf-8")
    stranger[0].write_text(tls.sign_host(line, authority, names=["gpu77"], now=now, days=1))
    assert upload(sandbox, ca, stranger) == http.client.FORBIDDEN


@pytest.fixture
def of_gpu1(sandbox: Cluster, tmp_path: Path) -> tuple[str, tuple[Path, Path]]:
    """Return the CA certificate, and certificate and key of gpu1, which its root can read."""
    own = tmp_path / "own.crt", tmp_path / "own.key"
    for path in own:
        path.write_text(sandbox.exec("gpu1", f"cat /etc/busbar/tls/host.{path.suffix[1:]}").stdout)
    return sandbox.exec("gpu1", "cat /etc/busbar/tls/ca.crt").stdout, own


def test_root_of_a_node_cannot_write_under_another_name(
    sandbox: Cluster, of_gpu1: tuple[str, tuple[Path, Path]]
) -> None:
    forged = HEAD % 1760000000000000 + b"MESSAGE=forged by gpu1\n_HOSTNAME=ctl\nSYSLOG_IDENTIFIER=sshd\n\n"
    assert upload(sandbox, *of_gpu1, forged) == http.client.ACCEPTED
    find = "grep -rla 'forged by gpu1' --include='*.journal*' --exclude-dir=gpu1"
    sandbox.wait_until(
        lambda: sandbox.exec("ctl", f"grep -qra 'forged by gpu1' {STORE}/gpu1", check=False).returncode == 0,
        "the entry is not kept at all",
    )
    assert sandbox.exec("ctl", f"{find} {STORE}", check=False).stdout == ""
    shown = sandbox.exec("ctl", f"journalctl -q -D {STORE}/gpu1 -t sshd _HOSTNAME=ctl -o cat").stdout
    assert shown == "forged by gpu1\n"


def flood(sandbox: Cluster, of_gpu1: tuple[str, tuple[Path, Path]], number: int) -> None:
    """Send 16 MiB of incompressible data; retry while the receiver rotates the journal."""
    entry = HEAD + b"_HOSTNAME=gpu1\nMESSAGE\n" + (4096).to_bytes(8, "little")
    noise = b"".join(entry % (1760000000000000 + number * 10000 + n) + os.urandom(4096) + b"\n\n" for n in range(4000))

    def taken() -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return upload(sandbox, *of_gpu1, noise) == http.client.ACCEPTED
        return False

    sandbox.wait_until(taken, "the receiver takes no entries", 60)


def test_flood_of_one_node_does_not_evict_journals_of_another(
    sandbox: Cluster, of_gpu1: tuple[str, tuple[Path, Path]]
) -> None:
    """gpu1 fills more than the limit of 64 MiB, and an older journal of another host remains."""
    begin = (
        f"mkdir -p {STORE}/gpu9 && cp {STORE}/gpu1/remote.journal {STORE}/gpu9/remote@0001.journal "
        f"&& chown -R systemd-journal-remote: {STORE}/gpu9"
    )
    sandbox.exec("ctl", begin)
    journals(sandbox, "-e", "journal_remote_max_use=64M", "-e", "journal_remote_max_file_size=64M")
    assert sandbox.exec("ctl", "systemctl is-active busbar-journal-tidy.timer").stdout == "active\n"
    try:
        for number in range(6):
            flood(sandbox, of_gpu1, number)
        use = f"systemctl start busbar-journal-tidy && du -sm {STORE} | cut -f1"
        sandbox.wait_until(lambda: int(sandbox.exec("ctl", use).stdout) <= 80, "the limit does not hold", 60)
        assert sandbox.exec("ctl", f"ls {STORE}/gpu9").stdout == "remote@0001.journal\n"
    finally:
        sandbox.exec("ctl", f"rm -rf {STORE}/gpu9")
        journals(sandbox)


def test_users_cannot_read_keys_or_journals_or_bypass_the_check(sandbox: Cluster) -> None:
    arrived = f"ls {STORE}/gpu1/remote.journal"
    sandbox.wait_until(lambda: sandbox.exec("ctl", arrived, check=False).returncode == 0, "nothing was received")
    reader = "python3 -c 'import os; os.listdir(\"/run/busbar-journal\")'"
    connect = 'socket.socket(socket.AF_UNIX).connect("/run/busbar-journal/gpu1.sock")'
    writer = f"python3 -c 'import socket; {connect}'"
    for attempt in ("cat /etc/busbar/tls/host.key", f"cat {STORE}/gpu1/remote.journal", reader, writer):
        refused = sandbox.exec("ctl", attempt, user="alice", check=False)
        assert refused.returncode != 0
        assert "Permission denied" in refused.stderr, attempt


def test_journals_are_rotated_and_removed_by_age(sandbox: Cluster) -> None:
    sandbox.exec("gpu1", "logger -t busbar-test before-the-rotation")
    arrives(sandbox, "before-the-rotation")
    sandbox.exec("ctl", f"{TIDY} all")
    closed = f"ls {STORE}/gpu1 | grep @"
    sandbox.wait_until(lambda: sandbox.exec("ctl", closed, check=False).returncode == 0, "no journal was closed")
    sandbox.exec("gpu1", "logger -t busbar-test after-the-rotation")
    arrives(sandbox, "after-the-rotation")
    arrives(sandbox, "before-the-rotation")
    sandbox.exec("ctl", f"touch -d '-40 days' {STORE}/gpu1/*@* && systemctl start busbar-journal-tidy")
    sandbox.wait_until(lambda: sandbox.exec("ctl", closed, check=False).returncode != 0, "the journal was not removed")
    arrives(sandbox, "after-the-rotation")


def test_second_run_changes_nothing(sandbox: Cluster) -> None:
    assert {counts["changed"] for counts in recap(journals(sandbox, "--check", "--diff")).values()} == {0}


def test_moved_receiver_stops_the_old_one_and_keeps_stored_journals(sandbox: Cluster) -> None:
    stored = sandbox.exec("ctl", f"ls {STORE}").stdout
    try:
        journals(sandbox, "-e", "journal_remote_receiver=gpu1")
        old = "systemctl is-active busbar-journal-tls; systemctl is-enabled busbar-journal-tls 2>/dev/null"
        assert sandbox.exec("ctl", old, check=False).stdout.split()[:1] == ["inactive"]
        assert sandbox.exec("ctl", "ls /etc/systemd/system/busbar-journal-tls.service", check=False).returncode == 2
        assert sandbox.exec("ctl", f"ls {STORE}").stdout == stored
        assert sandbox.exec("gpu1", "systemctl is-active systemd-journal-upload", check=False).stdout == "inactive\n"
        sandbox.exec("ctl", "logger -t busbar-test the-other-way")
        search = f"journalctl -q -D {STORE}/ctl -t busbar-test -o cat -n 50"
        arrived = lambda: "the-other-way" in sandbox.exec("gpu1", search, check=False).stdout  # noqa: E731
        sandbox.wait_until(arrived, "the-other-way is lost", 40)
    finally:
        journals(sandbox)
        sandbox.exec("gpu1", f"rm -rf {STORE}")
    assert sandbox.exec("ctl", "systemctl is-active busbar-journal-tls").stdout == "active\n"
    sandbox.exec("gpu1", "logger -t busbar-test and-back")
    arrives(sandbox, "and-back", 90)


def test_bad_input_is_refused_before_any_change(sandbox: Cluster) -> None:
    bad = ("-e", "journal_remote_receiver=", "-e", "journal_remote_max_use=lots")
    arguments = ("--tags", "journal_remote", "--limit", "gpu1", "-e", "journal_remote_enabled=true", *bad)
    done = sandbox.playbook("monitoring.yml", *arguments)
    assert done.returncode == 2, done.stdout
    assert "gpu1: journal_remote_receiver: no host receives the journals" in done.stdout
    assert "gpu1: journal_remote_max_use: 'lots' is not a valid size" in done.stdout
    assert "remedy: add a host to the group monitoring" in done.stdout
    assert recap(done.stdout)["gpu1"]["changed"] == 0


@pytest.mark.fault(
    "the port of the journal receiver is taken",
    says="ctl: journal_remote_port",
    heals="choose another port",
)
def test_port_in_use_is_refused_with_its_process(sandbox: Cluster) -> None:
    arguments = ("--tags", "journal_remote", "--limit", "ctl", "-e", "journal_remote_enabled=true")
    done = sandbox.playbook("monitoring.yml", *arguments, "-e", "journal_remote_port=22")
    assert done.returncode == 2, done.stdout
    assert "ctl: journal_remote_port" in done.stdout
    assert "sshd" in done.stdout
    assert recap(done.stdout)["ctl"]["changed"] == 0
