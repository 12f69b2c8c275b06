"""A second host with a copy of the cluster's own directory: real slapd on two nodes, and the first one gone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from conftest import Cluster, recap
from ldap_directory import ON, PASSWORDS, ROOT, SUFFIX, TOOLS, asked_as, by_password, change, person, provisioned

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

pytestmark = pytest.mark.proves("ldap_server", "sssd")

REFERRAL, INSUFFICIENT = 10, 50
HASHES = f"ldapsearch {ROOT} -LLL -b ou=people,{SUFFIX} -o ldif-wrap=no uid=erin userPassword sshPublicKey"


def answers(sandbox: Cluster, node: str) -> bool:
    return sandbox.exec(node, f"ldapwhoami {ROOT}", check=False).returncode == 0


def with_replica(sandbox: Cluster, *arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return provisioned(sandbox, "-i", str(sandbox.state / "replica.yml"), *arguments, **more)


@pytest.fixture(scope="module")
def replicated(directory: Cluster) -> Iterator[Cluster]:
    """The directory of ctl, with a replica on login."""
    group = directory.state / "replica.yml"
    group.write_text("all: {children: {ldap_server: {hosts: {ctl: , login: }}}}\n")
    before = "ls /etc/ldap /var/lib/ldap; systemctl is-active slapd"
    found = directory.exec("login", before, check=False).stdout
    try:
        dry = with_replica(directory, "--check", "--diff")
        assert dry.returncode == 0, dry.stdout + dry.stderr
        assert directory.exec("login", before, check=False).stdout == found
        done = with_replica(directory, "--diff")
        assert done.returncode == 0, done.stdout + done.stderr
        yield directory
    finally:
        units = "rm -rf /var/lib/ldap/* /etc/ldap/slapd.conf /etc/systemd/system/slapd.service; systemctl daemon-reload"
        directory.exec("login", f"systemctl disable --now slapd; {units}", check=False)
        back = provisioned(directory)
        group.unlink()
        assert back.returncode == 0, back.stdout + back.stderr


def test_a_second_run_changes_nothing(replicated: Cluster) -> None:
    done = with_replica(replicated)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {host: counts["changed"] for host, counts in recap(done.stdout).items() if counts["changed"]} == {}


def test_the_replica_has_all_and_follows(replicated: Cluster) -> None:
    there = replicated.exec("ctl", HASHES).stdout
    assert "userPassword:: " in there
    assert replicated.exec("login", HASHES).stdout == there
    change(replicated, person("henry", 20110, 20000), tool="ldapadd")
    asked = f"ldapsearch {ROOT} -LLL -b ou=people,{SUFFIX} uid=henry uidNumber"
    replicated.wait_until(
        lambda: "uidNumber: 20110" in replicated.exec("login", asked).stdout, "henry is not there", 30
    )
    change(replicated, f"dn: uid=henry,ou=people,{SUFFIX}\nchangetype: delete\n\n")
    replicated.wait_until(lambda: not replicated.exec("login", asked).stdout.strip(), "henry is still there", 30)


def test_the_replica_takes_no_change_and_gives_no_hash(replicated: Cluster) -> None:
    own = f"dn: uid=erin,ou=people,{SUFFIX}\nchangetype: modify\nreplace: sshPublicKey\n\n"
    done = asked_as(replicated, "erin", "ldapmodify", "", own, host="login")
    assert (done.returncode, f"ldaps://ctl:636/uid=erin,ou=people,{SUFFIX}" in done.stdout + done.stderr) == (
        REFERRAL,
        True,
    ), done
    read = asked_as(replicated, "erin", "ldapsearch", f"-LLL -b {SUFFIX} uid=frank userPassword", host="login")
    assert read.returncode == 0, read.stderr
    assert ("uid=frank" in read.stdout, "userPassword" in read.stdout) == (True, False)


def test_no_other_host_reads_hashes(replicated: Cluster) -> None:
    """With the certificate of its host as well, that any node has one."""
    pair = "LDAPTLS_CERT=/etc/busbar/tls/host.crt LDAPTLS_KEY=/etc/busbar/tls/host.key"
    asked = f"{TOOLS} {pair} ldapsearch -Q -Y EXTERNAL -H ldaps://ctl -LLL -b {SUFFIX} uid=erin uid userPassword"
    for node, shown in {"login": True, replicated.compute[0]: False}.items():
        replicated.exec(node, "dpkg-query -W ldap-utils || apt-get -qq install -y ldap-utils", timeout=300)
        said = replicated.exec(node, asked).stdout
        assert ("uid: erin" in said, "userPassword" in said) == (True, shown), (node, said)


def test_who_never_logged_in_does_while_the_directory_is_away(replicated: Cluster) -> None:
    node = replicated.compute[-1]
    replicated.exec("ctl", "systemctl stop slapd")
    try:
        replicated.exec(node, "systemctl stop sssd; rm -f /var/lib/sss/db/*; systemctl start sssd")
        replicated.exec(node, "timeout 60 sh -c 'until id frank; do sleep 0.5; done'", timeout=90)
        replicated.exec("login", "systemctl stop sssd; rm -f /var/lib/sss/db/*; systemctl start sssd")
        done = by_password(replicated, "frank", PASSWORDS["frank"])
        assert (done.returncode, done.stdout) == (0, "frank\n"), done.stderr
        assert by_password(replicated, "frank", "a wrong password").returncode != 0
    finally:
        replicated.exec("ctl", "systemctl start slapd")
    replicated.wait_until(lambda: answers(replicated, "ctl"), "slapd is not back")


def test_a_replica_that_is_ahead_says_so(replicated: Cluster) -> None:
    """As after a restore of the first one from an older backup."""
    kept = "/var/lib/ldap.test"
    replicated.exec("ctl", f"systemctl stop slapd; cp -a /var/lib/ldap {kept}; systemctl start slapd")
    later = f"dn: uid=frank,ou=people,{SUFFIX}\nchangetype: modify\nreplace: description\ndescription: later\n\n"
    asked = f"ldapsearch {ROOT} -LLL -b ou=people,{SUFFIX} uid=frank description"
    replicated.wait_until(lambda: answers(replicated, "ctl"), "slapd is not back")
    change(replicated, later)
    replicated.wait_until(lambda: "later" in replicated.exec("login", asked).stdout, "the replica does not follow", 30)
    replicated.exec(
        "ctl", f"systemctl stop slapd; rm -rf /var/lib/ldap; mv {kept} /var/lib/ldap; systemctl start slapd"
    )
    refused = with_replica(replicated)
    assert refused.returncode != 0
    assert recap(refused.stdout)["login"]["failed"] == 1
    assert "this replica has changes that ldaps://ctl:636 does not have" in refused.stdout
    assert "mv /var/lib/ldap /var/lib/ldap.before" in refused.stdout
    secret = (replicated.state / "secrets" / "ldap_reader.password").read_text().strip()
    assert secret not in refused.stdout + refused.stderr
    assert recap(refused.stdout)["ctl"]["failed"] == 0
    replicated.exec("login", "systemctl stop slapd; rm -rf /var/lib/ldap")
    done = with_replica(replicated)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "later" not in replicated.exec("login", asked).stdout


def test_a_replica_becomes_the_directory(replicated: Cluster) -> None:
    """The first host is gone for good: the group names the other one alone."""
    replicated.exec("ctl", "systemctl stop slapd")
    try:
        done = with_replica(
            replicated, "-e", json.dumps({"identity_server": "login", "identity_replicas": []} | ON), "--limit", "login"
        )
        assert done.returncode == 0, done.stdout + done.stderr
        change = f"dn: uid=erin,ou=people,{SUFFIX}\nchangetype: modify\nreplace: sshPublicKey\n\n"
        own = asked_as(replicated, "erin", "ldapmodify", "", change, host="login")
        assert own.returncode == 0, own.stdout + own.stderr
        foreign = change.replace("uid=erin", "uid=frank")
        assert asked_as(replicated, "erin", "ldapmodify", "", foreign, host="login").returncode == INSUFFICIENT
    finally:
        replicated.exec("ctl", "systemctl start slapd")


def test_a_replica_that_cannot_be_is_refused(replicated: Cluster) -> None:
    wrong = {"identity_replicas": ["lgoin"]} | ON
    refused = with_replica(replicated, "-e", json.dumps(wrong), "--limit", "login")
    assert refused.returncode != 0
    preflight = replicated.playbook("preflight.yml", "-e", json.dumps(wrong), "--tags", "sssd")
    assert preflight.returncode != 0
    assert "identity_replicas" in preflight.stdout
    assert "'lgoin' is no host of the inventory" in preflight.stdout
    assert {counts["changed"] for counts in recap(preflight.stdout).values()} == {0}
