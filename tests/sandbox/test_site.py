"""Tests of the whole site: idempotence, check mode, no secrets in logs, --limit, recovery after a dead node."""

from __future__ import annotations

import subprocess
import time

import pytest
from conftest import QUICK, TOP, Cluster, plain_environment, recap

pytestmark = pytest.mark.proves()

# Line 0 is the header; the lines before and after this one contain the public key, which is not secret.
OPENSSH_SEED_LINE = 4


def changes(output: str) -> dict[str, int]:
    return {host: counts["changed"] for host, counts in recap(output).items()}


def secrets(sandbox: Cluster) -> list[str]:
    """Return every secret as it would appear in a log: whole keys and passwords, and the seed line of OpenSSH keys."""
    found = []
    for path in (sandbox.state / "secrets").rglob("*"):
        if not path.is_file() or path.name.endswith((".pub", "known_hosts", "ssh_host_keys.json")):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        found.append(lines[OPENSSH_SEED_LINE] if "OPENSSH" in lines[0] else lines[0])
    return found


def test_check_mode_on_a_finished_site_shows_no_changes_and_no_secret(sandbox: Cluster) -> None:
    done = sandbox.playbook("site.yml", "--check", "--diff", "-vv")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert set(changes(done.stdout).values()) == {0}, done.stdout[-3000:]
    known = secrets(sandbox)
    assert len(known) >= 3
    logged = sandbox.busbar("provision", "base", "-i", str(sandbox.inventory), "--check", "--diff", "--tags", "hosts")
    assert logged.returncode == 0, logged.stdout + logged.stderr
    logs = [path for path in sandbox.state.rglob("*.log") if path.is_file()]
    assert logs
    for text in [done.stdout, done.stderr, *(path.read_text(encoding="utf-8") for path in logs)]:
        for secret in known:
            assert secret not in text


def snapshot(cluster: Cluster, node: str) -> str:
    """Return the installed packages, and every file under /etc with its content."""
    listing = "dpkg-query -W; find /etc -xdev -type f -exec sha256sum {} + | sort -k2; systemctl list-unit-files"
    return cluster.exec(node, listing).stdout


def test_check_mode_on_new_nodes_shows_changes_and_makes_none(sandbox_name: str) -> None:
    fresh = Cluster(f"{sandbox_name}-c")
    try:
        made = fresh.busbar("sandbox", "up", "--name", fresh.name, "--compute", "1")
        assert made.returncode == 0, made.stderr
        nodes = ["ctl", "login", "gpu1"]
        before = {node: snapshot(fresh, node) for node in nodes}
        done = fresh.playbook("site.yml", "--check", "--diff")
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
        assert min(changes(done.stdout).values()) > 5, done.stdout[-1000:]
        assert "slurmctld" in done.stdout
        assert {node: snapshot(fresh, node) for node in nodes} == before
        assert not list((fresh.state / "secrets").glob("munge*"))
    finally:
        fresh.busbar("sandbox", "down", "--name", fresh.name)


def test_secrets_are_private(sandbox: Cluster) -> None:
    folder = sandbox.state / "secrets"
    assert folder.stat().st_mode & 0o077 == 0
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.endswith((".pub", "known_hosts")):
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.fault(
    "a node that dies in mid-provision",
    says="fatal: [gpu2]: UNREACHABLE!",
    heals="power it on, then the next run; the others are provisioned meanwhile",
)
def test_node_that_dies_during_a_run_is_healed_by_the_next(sandbox: Cluster) -> None:
    entry = ["-e", '{"hosts_extra": [{"address": "192.0.2.7", "names": ["tape.example"]}]}']
    command = ["ansible-playbook", "-i", str(sandbox.inventory), str(TOP / "playbooks" / "base.yml"), *entry]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=TOP, env=plain_environment())
    assert child.stdout is not None
    head = child.stdout.readline()
    while "TASK [" not in head:
        head = child.stdout.readline()
    sandbox.fault("pull", "gpu2")
    output = child.stdout.read()
    assert child.wait() != 0
    counts = recap(output)
    assert counts["gpu2"]["unreachable"] == 1, output[-2000:]
    assert "fatal: [gpu2]: UNREACHABLE!" in output
    for node in ("ctl", "login", "gpu1"):
        assert counts[node]["failed"] == 0
        assert "tape.example" in sandbox.exec(node, "cat /etc/hosts").stdout
    sandbox.fault("heal")
    time.sleep(1)
    # Limited to the role with the missed change, to save time.
    healed = sandbox.playbook("base.yml", "--tags", "hosts", *entry)
    assert healed.returncode == 0, healed.stdout[-2000:]
    assert "tape.example" in sandbox.exec("gpu2", "cat /etc/hosts").stdout
    restored = sandbox.playbook("base.yml", "--tags", "hosts")
    assert restored.returncode == 0, restored.stdout[-2000:]
    sandbox.wait_idle()


def test_limit_to_one_node_changes_only_that_node(sandbox: Cluster) -> None:
    done = sandbox.busbar("provision", "-i", str(sandbox.inventory), "--limit", "gpu1", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(changes(done.stdout)) == {"gpu1"}
    assert set(changes(done.stdout).values()) == {0}
