"""Journals of all hosts on one: nothing is lost, nobody else writes or reads there."""

from __future__ import annotations

import http.client
import ssl
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils import tls_certificate as tls
from conftest import recap
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("journal_remote")

STORE = "/var/log/journal/remote"
ENTRY = b"__REALTIME_TIMESTAMP=1760000000000000\nMESSAGE=by hand\n_HOSTNAME=gpu1\n\n"


def journals(sandbox: Cluster, *arguments: str) -> str:
    """Run the play of the journals; what it said."""
    options = ("-e", "journal_remote_enabled=true", *arguments)
    limit = ("--limit", "ctl,gpu1")
    done = sandbox.playbook("monitoring.yml", "--tags", "tls,journal_remote", *limit, *options)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def sent(sandbox: Cluster) -> Iterator[None]:
    """Journals sent and received; as before at the end."""
    journals(sandbox)
    yield
    journals(sandbox, "-e", "journal_remote_state=absent")
    assert sandbox.exec("gpu1", "systemctl is-active systemd-journal-upload", check=False).stdout == "inactive\n"
    sandbox.exec("ctl", f"rm -rf {STORE}")


def arrives(sandbox: Cluster, text: str, timeout: float = 40) -> None:
    """Wait until a line of gpu1 is found on the receiving host."""
    search = f"journalctl -q -D {STORE} _HOSTNAME=gpu1 -t busbar-test -o cat -n 50"
    sandbox.wait_until(lambda: text in sandbox.exec("ctl", search, check=False).stdout, f"{text} is lost", timeout)


@pytest.mark.core
def test_a_line_of_a_node_is_found_on_the_monitoring_host(sandbox: Cluster) -> None:
    sandbox.exec("gpu1", "logger -t busbar-test here-i-am")
    arrives(sandbox, "here-i-am")


def test_what_was_written_while_the_receiver_was_away_comes_later(sandbox: Cluster) -> None:
    units = "busbar-journal-tls systemd-journal-remote.socket systemd-journal-remote"
    sandbox.exec("ctl", f"systemctl stop {units}")
    try:
        sandbox.exec("gpu1", "logger -t busbar-test nobody-listens")
        failed = "systemctl show -P NRestarts systemd-journal-upload"
        sandbox.wait_until(lambda: int(sandbox.exec("gpu1", failed).stdout) > 0, "the sender does not notice", 30)
        sandbox.exec("gpu1", "logger -t busbar-test still-nobody")
    finally:
        sandbox.exec("ctl", "systemctl start systemd-journal-remote.socket busbar-journal-tls")
    arrives(sandbox, "nobody-listens", 90)
    arrives(sandbox, "still-nobody")


def upload(sandbox: Cluster, ca: str, pair: tuple[Path, Path] | None) -> int:
    """Send one entry from this machine; the status of the answer."""
    context = ssl.create_default_context(cadata=ca)
    if pair:
        context.load_cert_chain(*pair)
    address = sandbox.exec("ctl", "getent ahostsv4 ctl | awk 'NR==1 {print $1}'").stdout.strip()
    connection = http.client.HTTPSConnection(address, 19532, timeout=10, context=context)
    connection.request("POST", "/upload", ENTRY, {"Content-Type": "application/vnd.fdo.journal"})
    return connection.getresponse().status


def test_only_hosts_of_the_cluster_may_send(sandbox: Cluster, tmp_path: Path) -> None:
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
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            upload(sandbox, ca, pair)


def test_a_user_reads_no_key_no_journal_and_does_not_write_past_the_check(sandbox: Cluster) -> None:
    reader = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"/run/busbar-journal-remote.sock\")'"
    for attempt in ("cat /etc/busbar/tls/host.key", f"cat {STORE}/remote.journal", reader):
        refused = sandbox.exec("ctl", attempt, user="alice", check=False)
        assert refused.returncode != 0
        assert "Permission denied" in refused.stderr, attempt


def test_old_journals_are_closed_and_taken_away(sandbox: Cluster) -> None:
    """As the hourly timer does, with limits of a moment."""
    script = "/usr/local/lib/busbar/journal_clean"
    sandbox.exec(
        "ctl", f"sed -E 's/>= [0-9]+ \\* 86400/>= 0/' {script} >/run/clean && bash /run/clean && rm /run/clean"
    )
    closed = sandbox.exec("ctl", f"ls {STORE}").stdout.split()
    assert any("@" in name and name.endswith(".journal~") for name in closed), closed
    arrives(sandbox, "here-i-am")
    sandbox.exec("gpu1", "logger -t busbar-test after-the-rotation")
    arrives(sandbox, "after-the-rotation")
    removed = f"sed -E 's/>= [0-9]+ \\* 86400/>= 99999999999/; s/--vacuum-time=.*/--vacuum-time=1s/' {script}"
    sandbox.exec("ctl", f"sleep 2; {removed} >/run/clean && bash /run/clean && rm /run/clean")
    assert sandbox.exec("ctl", f"ls {STORE}").stdout.split() == ["remote.journal"]


def test_a_second_run_changes_nothing(sandbox: Cluster) -> None:
    assert {counts["changed"] for counts in recap(journals(sandbox, "--check", "--diff")).values()} == {0}


def test_bad_input_is_refused_before_anything_changes(sandbox: Cluster) -> None:
    bad = ("-e", "journal_remote_receiver=", "-e", "journal_remote_max_use=lots")
    arguments = ("--tags", "journal_remote", "--limit", "gpu1", "-e", "journal_remote_enabled=true", *bad)
    done = sandbox.playbook("monitoring.yml", *arguments)
    assert done.returncode == 2, done.stdout
    assert "gpu1: journal_remote_receiver: no host receives the journals" in done.stdout
    assert "gpu1: journal_remote_max_use: 'lots' is no size" in done.stdout
    assert "remedy: put a host into the group monitoring" in done.stdout
    assert recap(done.stdout)["gpu1"]["changed"] == 0


def test_a_port_that_is_taken_is_refused_with_its_holder(sandbox: Cluster) -> None:
    arguments = ("--tags", "journal_remote", "--limit", "ctl", "-e", "journal_remote_enabled=true")
    done = sandbox.playbook("monitoring.yml", *arguments, "-e", "journal_remote_port=22")
    assert done.returncode == 2, done.stdout
    assert "ctl: journal_remote_port" in done.stdout
    assert "sshd" in done.stdout
    assert recap(done.stdout)["ctl"]["changed"] == 0
