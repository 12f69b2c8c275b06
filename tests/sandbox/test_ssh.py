"""Tests of SSH: hostbased logins between nodes, refusal of outside hosts, rotation, and first contact."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.access.ssh_certificate import sign_host_key
from conftest import TOP, plain_environment, recap
from test_slurm_jobs import job_state, submit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("ssh")

CERTIFICATE = "/etc/ssh/ssh_host_ed25519_key-cert.pub"
SSH = "ssh -o BatchMode=yes -o ConnectTimeout=10"
PASSWORD = "correct horse battery staple"  # noqa: S105 - of a user who lives for one test


def _nodes(sandbox: Cluster) -> list[str]:
    return ["ctl", "login", *sandbox.compute]


@pytest.fixture(scope="module", autouse=True)
def _job(sandbox: Cluster) -> Iterator[None]:
    """Run a job of alice on all compute nodes, where she may not log in without one."""
    if sandbox.exec("ctl", "command -v scontrol", check=False).returncode != 0:
        yield
        return
    sandbox.wait_idle()
    job = submit(sandbox, f"-N{len(sandbox.compute)} --ntasks-per-node=1 --mem=100 -o /dev/null", "sleep 3600")
    sandbox.wait_until(lambda: job_state(sandbox, job) == "RUNNING", f"job {job} does not run")
    yield
    sandbox.exec("ctl", f"scancel {job}")
    sandbox.wait_idle()


def _address(sandbox: Cluster, node: str) -> str:
    return sandbox.exec("ctl", f"getent ahostsv4 {node} | awk 'NR==1 {{print $1}}'").stdout.strip()


def _everybody_reaches_everybody(sandbox: Cluster) -> None:
    takes_users = ["login", *sandbox.compute]
    for node in _nodes(sandbox):
        others = [other for other in takes_users if other != node]
        script = "; ".join(f"{SSH} {other} hostname" for other in others)
        assert sandbox.exec(node, script, user="alice").stdout.split() == others


@pytest.mark.core
def test_user_logs_in_from_node_to_node_without_a_prompt(sandbox: Cluster) -> None:
    _everybody_reaches_everybody(sandbox)


def test_login_by_address_works(sandbox: Cluster) -> None:
    address = _address(sandbox, "login")
    assert sandbox.exec("ctl", f"{SSH} {address} whoami", user="bob").stdout.strip() == "bob"


@pytest.fixture
def moved(sandbox: Cluster) -> Iterator[str]:
    """Return a node whose server listens only on port 2222, configured by the site and declared in the inventory."""
    node, place = sandbox.compute[0], sandbox.inventory / "host_vars"
    place.mkdir(exist_ok=True)
    sandbox.exec(node, "echo 'Port 2222' >/etc/ssh/sshd_config.d/00-site.conf && systemctl restart ssh")
    (place / f"{node}.yml").write_text("---\nansible_port: 2222\n")
    known = sandbox.state / "ssh" / "known_hosts"
    before = known.read_text()
    own = next(line for line in before.splitlines() if line.split()[0].endswith(f",{node}"))
    known.write_text(f"{before}[{_address(sandbox, node)}]:2222 {own.split(' ', 1)[1]}\n")
    yield node
    (place / f"{node}.yml").unlink()
    known.write_text(before)
    sandbox.exec(node, "rm /etc/ssh/sshd_config.d/00-site.conf && systemctl restart ssh")
    done = sandbox.playbook("base.yml", "--tags", "ssh")
    assert done.returncode == 0, done.stdout + done.stderr


def test_server_on_another_port_is_reached_by_name_without_a_port(sandbox: Cluster, moved: str) -> None:
    done = sandbox.playbook("base.yml", "--tags", "ssh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2222" in sandbox.exec(moved, "ss -Hltn 'sport = :2222'").stdout
    assert sandbox.exec(moved, "ss -Hltn 'sport = :22'").stdout == ""
    _everybody_reaches_everybody(sandbox)
    shown = sandbox.exec("login", f"{SSH} {_address(sandbox, moved)} hostname", user="alice").stdout
    assert shown.strip() == moved
    again = sandbox.playbook("base.yml", "--tags", "ssh")
    assert all(counts["changed"] == 0 for counts in recap(again.stdout).values()), again.stdout


def test_no_user_has_a_key_or_known_hosts(sandbox: Cluster) -> None:
    for node in _nodes(sandbox):
        assert sandbox.exec(node, "ls -A ~/.ssh 2>/dev/null", user="alice", check=False).stdout == ""


@pytest.mark.parametrize("user", ["root", "admin"])
def test_privileged_user_needs_a_key(sandbox: Cluster, user: str) -> None:
    done = sandbox.exec(sandbox.compute[0], f"{SSH} login true", user=user, check=False)
    assert done.returncode == 255
    assert "Permission denied" in done.stderr


@pytest.mark.core
def test_user_cannot_log_in_as_another(sandbox: Cluster) -> None:
    done = sandbox.exec(sandbox.compute[0], f"{SSH} bob@login true", user="alice", check=False)
    assert done.returncode == 255
    assert "Permission denied" in done.stderr


def _from_outside(sandbox: Cluster, *options: str) -> subprocess.CompletedProcess[str]:
    """Try to log in as alice from this machine, which is not a host of the cluster."""
    known = sandbox.state / "secrets" / "known_hosts"
    fixed = ["-F", "none", "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={known}", "-o", "IdentityAgent=none"]
    command = ["ssh", *fixed, *options, f"alice@{_address(sandbox, 'login')}", "true"]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)


def test_outside_host_is_refused(sandbox: Cluster) -> None:
    options = ["-o", "HostbasedAuthentication=yes", "-o", "EnableSSHKeysign=yes", "-o", "IdentityFile=none"]
    done = _from_outside(sandbox, *options, "-o", "PreferredAuthentications=hostbased,publickey")
    assert done.returncode == 255
    assert "Permission denied" in done.stderr


def test_host_key_without_certificate_is_refused(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    sandbox.exec(node, f"mv {CERTIFICATE} /root/cert && systemctl restart ssh")
    try:
        out = sandbox.exec("login", f"{SSH} {node} true", user="alice", check=False)
        back = sandbox.exec(node, f"{SSH} login true", user="alice", check=False)
    finally:
        sandbox.exec(node, f"mv /root/cert {CERTIFICATE} && systemctl restart ssh")
    assert "Host key verification failed" in out.stderr
    assert "Permission denied" in back.stderr
    _everybody_reaches_everybody(sandbox)


def test_keys_stored_outside_the_home_are_accepted(sandbox: Cluster) -> None:
    done = _from_outside(sandbox, "-i", str(sandbox.state / "ssh" / "id_ed25519"), "-o", "IdentitiesOnly=yes")
    assert done.returncode == 0, done.stderr


def test_server_is_hardened(sandbox: Cluster) -> None:
    shown = sandbox.exec("login", "sshd -T -C user=alice,host=x,addr=192.0.2.1").stdout.splitlines()
    for line in ("permitrootlogin without-password", "passwordauthentication no", "kbdinteractiveauthentication no"):
        assert line in shown
    assert "hostbasedauthentication yes" in shown
    assert "hostbasedauthentication no" in sandbox.exec("login", "sshd -T -C user=root,host=x,addr=192.0.2.1").stdout


@pytest.mark.fault(
    "an sshd setting that does not exist",
    says="NoSuchSetting",
    heals="correct the option; the former settings stay",
)
def test_invalid_setting_is_never_installed(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    before = sandbox.exec(node, "md5sum /etc/ssh/sshd_config.d/01-busbar.conf").stdout
    extra = '{"ssh_server_config": {"NoSuchSetting": "yes"}}'
    done = sandbox.playbook("base.yml", "--limit", node, "--tags", "ssh", "-e", extra)
    assert done.returncode != 0
    assert "NoSuchSetting" in done.stdout
    assert sandbox.exec(node, "md5sum /etc/ssh/sshd_config.d/01-busbar.conf").stdout == before


def test_second_run_keeps_the_certificates(sandbox: Cluster) -> None:
    before = [sandbox.exec(node, f"cat {CERTIFICATE}").stdout for node in _nodes(sandbox)]
    done = sandbox.playbook("base.yml", "--tags", "ssh")
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values()), done.stdout
    assert [sandbox.exec(node, f"cat {CERTIFICATE}").stdout for node in _nodes(sandbox)] == before


def test_certificate_that_expires_soon_is_renewed(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    before = sandbox.exec(node, f"cat {CERTIFICATE}").stdout
    days = "{ssh_certificate_renew_days: 91}"
    done = sandbox.playbook("base.yml", "--limit", node, "--tags", "ssh", "-e", days)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sandbox.exec(node, f"cat {CERTIFICATE}").stdout != before
    _everybody_reaches_everybody(sandbox)


def test_certificates_last_three_months_and_their_expiry_is_a_metric(sandbox: Cluster) -> None:
    for node in _nodes(sandbox):
        shown = sandbox.exec(node, f"ssh-keygen -Lf {CERTIFICATE}").stdout
        end = re.search(r"Valid: from \S+ to (\S+)", shown)
        assert end
        left = dt.datetime.fromisoformat(end[1]) - dt.datetime.now()  # noqa: DTZ005 - in local time, like the output
        assert 29 < left.days <= 90
        metric = sandbox.exec(node, "cat /var/lib/prometheus/node-exporter/busbar_ssh.prom").stdout.splitlines()[-1]
        assert metric.startswith(f'busbar_certificate_not_after_timestamp_seconds{{path="{CERTIFICATE}"}} ')
        assert metric.split()[-1] == sandbox.exec(node, f"date -d '{end[1]}' +%s").stdout.strip()


@pytest.mark.fault(
    "a host certificate has expired",
    says="Host key verification failed",
    heals="the next run renews it",
)
def test_expired_certificate_does_not_prevent_its_renewal(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    secrets = sandbox.state / "secrets"
    public = sandbox.exec(node, "cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub").stdout.strip()
    yesterday = int(time.time()) - 86400
    authority = (secrets / "ssh_ca").read_text()
    ended = sign_host_key(public, authority, identity="x", principals=[node], now=yesterday, days=0)
    sandbox.exec(node, f"echo '{ended}' >{CERTIFICATE} && systemctl restart ssh")
    refused = sandbox.exec("login", f"{SSH} {node} true", user="alice", check=False)
    # Without the sandbox's known_hosts, which a real cluster does not have.
    known = f"-o IdentitiesOnly=yes -o UserKnownHostsFile={secrets / 'known_hosts'}"
    done = sandbox.playbook(
        "base.yml", "--limit", node, "--tags", "ssh", "-e", json.dumps({"ansible_ssh_common_args": known})
    )
    assert (refused.returncode, "Host key verification failed" in refused.stderr) == (255, True)
    assert done.returncode == 0, done.stdout + done.stderr
    _everybody_reaches_everybody(sandbox)


def test_former_host_key_is_revoked(sandbox: Cluster) -> None:
    """A host with a stolen key and its certificate is not trusted any more."""
    node, key = sandbox.compute[0], "/etc/ssh/ssh_host_ed25519_key"
    files = f"{key} {key}.pub {key}-cert.pub"
    restart = "systemctl restart ssh"
    sandbox.exec(node, f"for f in {files}; do cp -p $f $f.stolen; done; rm {files}")
    sandbox.exec(node, f"ssh-keygen -q -t ed25519 -N '' -f {key} && {restart}")
    try:
        # The new key is not known yet.
        trusting = {"ansible_ssh_common_args": "-o IdentitiesOnly=yes -o StrictHostKeyChecking=no"}
        done = sandbox.playbook("base.yml", "--tags", "ssh", "-e", json.dumps(trusting))
        assert done.returncode == 0, done.stdout + done.stderr
        _everybody_reaches_everybody(sandbox)
        sandbox.exec(node, f"for f in {files}; do mv $f $f.new; mv $f.stolen $f; done; {restart}")
        out = [sandbox.exec(other, f"{SSH} {node} true", user="alice", check=False) for other in ("login", "ctl")]
        into = sandbox.exec(node, f"{SSH} login true", user="alice", check=False)
        sandbox.exec(node, f"for f in {files}; do mv $f.new $f; done; {restart}")
        for refused in out:
            assert (refused.returncode, "REVOKED HOST KEY DETECTED" in refused.stderr) == (255, True)
        assert (into.returncode, "Permission denied" in into.stderr) == (255, True)
    finally:
        # Recreates the sandbox's record of its host keys.
        up = sandbox.busbar("sandbox", "up", "--name", sandbox.name)
    assert up.returncode == 0, up.stderr
    again = sandbox.playbook("base.yml", "--tags", "ssh")
    assert all(counts["changed"] == 0 for counts in recap(again.stdout).values()), again.stdout
    _everybody_reaches_everybody(sandbox)


def test_private_key_of_the_ca_stays_on_this_host(sandbox: Cluster) -> None:
    authority = sandbox.state / "secrets" / "ssh_ca"
    assert authority.stat().st_mode & 0o077 == 0
    # Line 4 of the key file contains the private part; the lines before it contain public data.
    secret = authority.read_text().splitlines()[4]
    for node in _nodes(sandbox):
        assert sandbox.exec(node, f"grep -rlF -- '{secret}' /etc /root /home /tmp", check=False).stdout == ""


def test_rotation(sandbox: Cluster) -> None:
    keys = {node: sandbox.exec(node, "cat /etc/ssh/ssh_host_ed25519_key.pub").stdout for node in _nodes(sandbox)}
    authority = (sandbox.state / "secrets" / "ssh_ca").read_text()
    done = sandbox.playbook("rotate_secrets.yml", "-e", "rotate_secrets=ssh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (sandbox.state / "secrets" / "ssh_ca").read_text() != authority
    for node, key in keys.items():
        assert sandbox.exec(node, "cat /etc/ssh/ssh_host_ed25519_key.pub").stdout != key
        assert sandbox.exec(node, "grep -c @cert-authority /etc/ssh/ssh_known_hosts").stdout.strip() == "1"
        assert sandbox.exec(node, "ls /etc/ssh/*.next*", check=False).stdout == ""
    _everybody_reaches_everybody(sandbox)
    again = sandbox.playbook("base.yml", "--tags", "ssh")
    assert all(counts["changed"] == 0 for counts in recap(again.stdout).values()), again.stdout


@pytest.mark.fault(
    "a host is missing while the SSH authority is rotated",
    says="hosts do not trust the next authority yet: ",
    heals="run the rotation again with all hosts",
)
def test_rotation_without_all_hosts_replaces_nothing(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    authority = (sandbox.state / "secrets" / "ssh_ca").read_text()
    done = sandbox.playbook("rotate_secrets.yml", "-e", "rotate_secrets=ssh", "--limit", f"!{node}")
    assert done.returncode != 0
    assert f"hosts do not trust the next authority yet: {node}" in " ".join(done.stdout.split())
    assert (sandbox.state / "secrets" / "ssh_ca").read_text() == authority
    _everybody_reaches_everybody(sandbox)
    assert sandbox.playbook("rotate_secrets.yml", "-e", "rotate_secrets=ssh").returncode == 0
    assert sorted(path.name for path in (sandbox.state / "secrets").glob("ssh_ca*")) == ["ssh_ca"]
    _everybody_reaches_everybody(sandbox)


@pytest.fixture
def password_node(sandbox: Cluster) -> Iterator[str]:
    """Return a node on which a new user can log in only with a password."""
    node = sandbox.compute[0]
    drop_in = "/etc/ssh/sshd_config.d/00-test.conf"
    # Newer servers delay clients after wrong passwords, which would affect the test's next attempt.
    sandbox.exec(
        node,
        f"useradd -m -s /bin/bash -G sudo newadmin && echo 'newadmin:{PASSWORD}' | chpasswd;"
        f"if sshd -t -o PerSourcePenalties=no 2>/dev/null; then echo 'PerSourcePenalties no' > {drop_in}; fi;"
        f"printf '%s\\n' 'Match User newadmin' 'PasswordAuthentication yes' >> {drop_in};"
        "sshd -t && systemctl restart ssh",
    )
    yield node
    sandbox.exec(
        node, f"rm -f {drop_in} /etc/sudoers.d/busbar-bootstrap-newadmin; userdel -rf newadmin; systemctl restart ssh"
    )


def _bootstrap(
    sandbox: Cluster, node: str, folder: Path, *arguments: str, password: str = ""
) -> subprocess.CompletedProcess[str]:
    if not (folder / "id").exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "id")], check=True)
    command = ["busbar", "ssh", "bootstrap", "-i", str(sandbox.inventory), "--limit", node, "--user", "newadmin"]
    files = ["--key", str(folder / "id.pub"), "--known-hosts", str(folder / "known_hosts")]
    environment = plain_environment() | ({"BUSBAR_SSH_PASSWORD": password} if password else {})
    return subprocess.run(
        [*command, *files, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=TOP,
        env=environment,
        stdin=subprocess.DEVNULL,
    )


def test_first_contact(sandbox: Cluster, password_node: str, tmp_path: Path) -> None:
    shown = sandbox.exec(password_node, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").stdout.split()[1]
    unknown = _bootstrap(sandbox, password_node, tmp_path, password=PASSWORD)
    assert (unknown.returncode, f"--fingerprint {password_node}={shown}" in unknown.stdout) == (1, True)
    assert not (tmp_path / "known_hosts").exists()
    assert sandbox.exec(password_node, "ls /home/newadmin/.ssh", check=False).stdout == ""
    vouched = f"--fingerprint={password_node}={shown}"
    nobody = _bootstrap(sandbox, password_node, tmp_path, vouched)
    assert (nobody.returncode, "set BUSBAR_SSH_PASSWORD" in nobody.stderr) == (2, True)
    wrong = _bootstrap(sandbox, password_node, tmp_path, password="wrong")  # noqa: S106 - wrong password
    assert (wrong.returncode, f"FAILED: {password_node}: wrong password" in wrong.stdout) == (1, True)
    (tmp_path / "known_hosts").unlink()
    first = _bootstrap(sandbox, password_node, tmp_path, "--sudo", vouched, password=PASSWORD)
    assert first.returncode == 0, first.stdout + first.stderr
    assert f"ok: {password_node}: key installed, sudo rule installed" in first.stdout
    second = _bootstrap(sandbox, password_node, tmp_path, "--sudo")
    assert f"ok: {password_node}: key already present, sudo rule already present" in second.stdout
    assert PASSWORD not in first.stdout + first.stderr + second.stdout
    assert sandbox.exec(password_node, "sudo -n id -u", user="newadmin").stdout.strip() == "0"


def test_first_contact_refuses_a_changed_host_key(sandbox: Cluster, password_node: str, tmp_path: Path) -> None:
    other = sandbox.exec("ctl", "cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub").stdout.strip()
    (tmp_path / "known_hosts").write_text(f"{_address(sandbox, password_node)} {other}\n")
    done = _bootstrap(sandbox, password_node, tmp_path, password=PASSWORD)
    assert done.returncode == 1
    assert f"FAILED: {password_node}: has the host key ssh-ed25519 SHA256:" in done.stdout
    assert sandbox.exec(password_node, "ls /home/newadmin/.ssh", check=False).stdout == ""


def test_first_contact_with_an_unreachable_host(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    # An address reserved for documentation, and a name that cannot exist.
    inventory.write_text(
        "all: {hosts: {gone: {ansible_host: 127.0.0.1, ansible_port: 9}, lost: {ansible_host: a.invalid}}}"
    )
    (tmp_path / "id.pub").write_text(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMdOIs4ZUUzsmD91rKaOkv1ANjPLUmGbYBp/r858dVUk\n"
    )
    options = ["--key", str(tmp_path / "id.pub"), "--known-hosts", str(tmp_path / "known_hosts")]
    done = subprocess.run(
        ["busbar", "ssh", "bootstrap", "-i", str(inventory), *options],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=plain_environment() | {"HOME": os.environ.get("HOME", "/root")},
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert "FAILED: gone: refuses the connection (start its SSH server)" in done.stdout
    assert "FAILED: lost: has a name that cannot be resolved (set ansible_host in the inventory)" in done.stdout
