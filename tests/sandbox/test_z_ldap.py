"""Tests of directory users: real slapd and sssd, logins by key and password, jobs, attacks, a missing directory."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml
from conftest import Cluster, recap
from ldap_directory import (
    INSUFFICIENT,
    KEY_OF_FRANK,
    PASSWORDS,
    ROOT,
    SUFFIX,
    TOOLS,
    asked_as,
    by_key,
    by_password,
    change,
    given,
    member,
    nodes,
    person,
    provisioned,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.proves("ldap_server", "sssd")


@pytest.mark.scenario
def test_every_node_has_the_same_uids_and_gids(directory: Cluster) -> None:
    for node in nodes(directory):
        directory.exec(node, "timeout 60 sh -c 'until id erin; do sleep 0.5; done'", timeout=90)
    erin = "uid=20101(erin) gid=20000(cluster-users) groups=20000(cluster-users)\n"
    assert {directory.exec(node, "id erin; id alice").stdout for node in nodes(directory)} == {
        erin + "uid=2001(alice) gid=2000(research) groups=2000(research)\n"
    }
    assert (
        directory.exec("login", "getent passwd erin").stdout == "erin:*:20101:20000:erin:/shared/home/erin:/bin/bash\n"
    )


@pytest.mark.scenario
def test_user_logs_in_by_key_and_password_to_her_own_home(directory: Cluster, directory_key: Path) -> None:
    home = "stat -c '%U %a' /shared/home/erin"
    directory.wait_until(lambda: directory.exec("ctl", home, check=False).stdout == "erin 700\n", "no home", 90)
    for done in (by_key(directory, "erin", directory_key), by_password(directory, "erin", PASSWORDS["erin"])):
        assert (done.returncode, done.stdout) == (0, "erin\n"), done.stderr
    assert directory.exec("login", "pwd; touch file && rm file", user="erin").stdout == "/shared/home/erin\n"
    alice = by_key(directory, "alice", directory.state / "ssh" / "id_ed25519")
    assert alice.stdout == "alice\n", alice.stderr


def test_user_without_permission_cannot_log_in(directory: Cluster, directory_key: Path) -> None:
    wrong = by_password(directory, "erin", "a wrong password")
    assert (wrong.returncode, "Permission denied" in wrong.stderr) == (255, True)
    assert by_key(directory, "frank", directory_key).returncode == 255
    outside = by_password(directory, "dave", PASSWORDS["dave"])
    assert (outside.returncode, outside.stdout) == (255, "")
    assert directory.exec("ctl", "ls -d /shared/home/dave", check=False).returncode != 0
    change(directory, member("cluster-locked", "erin"))
    try:
        # sssd queries groups once per login and caches the answer for some seconds.
        directory.wait_until(lambda: by_key(directory, "erin", directory_key).returncode == 255, "erin is not locked")
        done = by_password(directory, "erin", PASSWORDS["erin"])
        assert (done.returncode, done.stdout) == (255, ""), done.stderr
    finally:
        change(directory, member("cluster-locked", "erin", "delete"))
    directory.wait_until(lambda: by_key(directory, "erin", directory_key).stdout == "erin\n", "erin is still locked")


def test_entry_with_the_name_of_an_admin_gives_no_access(directory: Cluster, directory_key: Path) -> None:
    entry = person("admin", 20109, 20000, directory_key.with_suffix(".pub").read_text().strip())
    change(directory, entry, tool="ldapadd")
    change(directory, member("cluster-users", "admin"))
    try:
        assert by_key(directory, "admin", directory_key).returncode == 255
        assert by_password(directory, "admin", "nobody knows this one").returncode == 255
        refused = provisioned(directory, "--limit", "login")
        assert refused.returncode != 0
        assert "user admin is in /etc/passwd with uid" in refused.stdout
        assert "and in the directory ldaps://ctl:636 with uid 20109" in refused.stdout
    finally:
        change(directory, member("cluster-users", "admin", "delete"))
        directory.exec("ctl", f"ldapdelete {ROOT} uid=admin,ou=people,{SUFFIX}")


def test_uid_in_use_is_refused_with_both_names(directory: Cluster) -> None:
    accounts = yaml.safe_load((directory.inventory / "group_vars/all/zz_sandbox.yml").read_text())["users_accounts"]
    carol = {"name": "carol", "uid": 20101, "group": "research"}
    refused = provisioned(directory, "--limit", "login", users_accounts=[*accounts, carol])
    assert refused.returncode != 0
    assert "uid 20101 of user carol is taken by erin" in refused.stdout
    assert "change the uid of carol" in refused.stdout


def test_users_cannot_read_hashes_or_change_other_entries(directory: Cluster) -> None:
    listed = asked_as(directory, "erin", "ldapsearch", f"-LLL -o ldif-wrap=no -b {SUFFIX} '*' +")
    assert f"dn: uid=frank,ou=people,{SUFFIX}" in listed.stdout
    for word in ("userPassword:", "ARGON2", "pwdHistory", KEY_OF_FRANK, "cn=reader"):
        assert word not in listed.stdout, word
    frank, erin = (f"dn: uid={name},ou=people,{SUFFIX}\nchangetype: modify\n" for name in ("frank", "erin"))
    for ldif in (
        f"{frank}replace: sshPublicKey\nsshPublicKey: ssh-ed25519 AAAA erin\n",
        f"{frank}replace: userPassword\nuserPassword: now it is mine\n",
        f"{erin}replace: uidNumber\nuidNumber: 20199\n",
        f"{erin}replace: gidNumber\ngidNumber: 0\n",
        member("cluster-locked", "frank"),
        person("grace", 20110, 20000).replace("objectClass", "changetype: add\nobjectClass", 1),
        f"dn: uid=frank,ou=people,{SUFFIX}\nchangetype: delete\n",
    ):
        done = asked_as(directory, "erin", "ldapmodify", "", ldif)
        assert done.returncode == INSUFFICIENT, (ldif, done.stdout, done.stderr)
    # A filter could reveal an attribute by its matches, even if the attribute is not shown.
    guessed = asked_as(directory, "erin", "ldapsearch", f"-LLL -b {SUFFIX} '(userPassword=*)' dn")
    assert guessed.stdout == ""
    anonymous = directory.exec(
        "login", f"{TOOLS} ldapsearch -x -H ldaps://ctl -LLL -b {SUFFIX}", user="erin", check=False
    )
    assert "dn:" not in anonymous.stdout
    secret = (directory.state / "secrets" / "ldap_reader.password").read_text().strip()
    reader = f"-x -H ldaps://ctl -D cn=reader,ou=services,{SUFFIX} -w {secret}"
    read = directory.exec("ctl", f"{TOOLS} ldapsearch {reader} -LLL -o ldif-wrap=no -b {SUFFIX} '*' +").stdout
    assert KEY_OF_FRANK in read
    assert "userPassword:" not in read
    for node in nodes(directory):
        unread = directory.exec(node, "cat /etc/sssd/sssd.conf /etc/ldap/slapd.conf", user="alice", check=False)
        assert unread.stdout == ""
    assert directory.exec("login", "ldapwhoami -x -H ldap://ctl", check=False).returncode != 0
    hashes = directory.exec("ctl", "slapcat -a '(uid=erin)' | grep -A2 ^userPassword").stdout
    assert PASSWORDS["erin"] not in hashes


def test_user_changes_her_own_key_and_password(directory: Cluster, tmp_path: Path) -> None:
    own = tmp_path / "own"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", own], check=True)
    start = f"dn: uid=frank,ou=people,{SUFFIX}\nchangetype: modify\n"
    public = own.with_suffix(".pub").read_text().strip()
    done = asked_as(directory, "frank", "ldapmodify", "", f"{start}replace: sshPublicKey\nsshPublicKey: {public}\n")
    assert done.returncode == 0, done.stderr
    directory.exec("login", "sss_cache -u frank")
    directory.wait_until(lambda: by_key(directory, "frank", own).stdout == "frank\n", "the new key is not known")
    short = asked_as(directory, "frank", "ldappasswd", "-s short")
    assert short.returncode != 0
    assert "Password fails quality checking" in short.stdout + short.stderr
    other = "another horse of frank"
    done = asked_as(directory, "frank", "ldappasswd", f"-s {shlex.quote(other)}")
    assert done.returncode == 0, done.stderr
    assert by_password(directory, "frank", PASSWORDS["frank"]).returncode == 255
    assert by_password(directory, "frank", other).stdout == "frank\n"


@pytest.fixture(scope="module")
def associated(directory: Cluster) -> Iterator[Cluster]:
    """Add an association for erin; her name is resolved before it is created."""
    users = yaml.safe_load((directory.inventory / "group_vars/all/zz_sandbox.yml").read_text())["users_accounts"]
    erin = {"name": "erin", "slurm": {"account": "research"}}
    unknown = {"name": "nobody-there", "slurm": {"account": "research"}}
    tags = ["--tags", "slurm_accounting"]
    refused = directory.playbook("slurm.yml", *tags, *given(users_accounts=[*users, erin, unknown]))
    assert refused.returncode != 0
    assert "users_accounts: contains users that do not exist on this controller (nobody-there)" in refused.stdout
    assert "erin" not in directory.exec("ctl", "sacctmgr -nP show assoc format=user").stdout
    done = directory.playbook("slurm.yml", *tags, *given(users_accounts=[*users, erin]))
    assert done.returncode == 0, done.stdout + done.stderr
    yield directory
    directory.exec("ctl", "scancel --user=erin; sacctmgr -i delete user erin")


def test_job_runs_and_is_accounted(associated: Cluster) -> None:
    done = associated.exec("login", "srun --job-name=hers id -un", user="erin")
    assert done.stdout == "erin\n"
    listing = "sacct -nX --name=hers --user=erin -o Account,State%10"
    associated.wait_until(lambda: "COMPLETED" in associated.exec("ctl", listing).stdout, "not in the accounting", 30)
    assert associated.exec("ctl", listing).stdout.split()[:2] == ["research", "COMPLETED"]


def test_logins_and_jobs_continue_while_the_directory_is_down(associated: Cluster, directory_key: Path) -> None:
    number = associated.exec("login", "sbatch --parsable -o /dev/null --wrap 'sleep 300'", user="erin").stdout.strip()
    state = f"squeue -h -j {number} -o %T"
    associated.wait_until(lambda: associated.exec("ctl", state).stdout == "RUNNING\n", "the job does not run")
    assert by_password(associated, "erin", PASSWORDS["erin"]).stdout == "erin\n"
    associated.exec("ctl", "systemctl stop slapd")
    try:
        for done in (by_password(associated, "erin", PASSWORDS["erin"]), by_key(associated, "erin", directory_key)):
            assert (done.returncode, done.stdout) == (0, "erin\n"), done.stderr
        assert by_password(associated, "erin", "a wrong password").returncode == 255
        assert associated.exec("login", "srun id -un", user="erin").stdout == "erin\n"
        assert associated.exec("ctl", state).stdout == "RUNNING\n"
        admin = by_key(associated, "admin", associated.state / "ssh" / "id_ed25519")
        assert admin.stdout == "admin\n", admin.stderr
    finally:
        associated.exec("ctl", f"systemctl start slapd; scancel {number}")
    associated.wait_until(
        lambda: associated.exec("ctl", f"ldapwhoami {ROOT}", check=False).returncode == 0, "slapd is not back"
    )


def test_untrusted_certificate_is_refused(directory: Cluster) -> None:
    make = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout /root/other.key -out /root/other.crt"
    )
    directory.exec("login", f"{make} && chmod 644 /root/other.crt")
    before = directory.exec("login", "cat /etc/sssd/sssd.conf").stdout
    refused = provisioned(directory, "--limit", "login", sssd_ca_file="/root/other.crt")
    directory.exec("login", "rm /root/other.*")
    assert refused.returncode != 0
    assert (
        "cannot query the directory: ldaps://ctl:636: ldap_sasl_bind(SIMPLE): Can't contact LDAP server"
        in refused.stdout
    )
    assert "sssd_ca_file" in refused.stdout
    assert directory.exec("login", "cat /etc/sssd/sssd.conf").stdout == before


def test_uri_without_tls_is_refused_before_any_change(directory: Cluster) -> None:
    outside = {"identity_source": "external", "sssd_uris": ["ldap://ldap.example.org"], "sssd_base": SUFFIX}
    given = outside | {"identity_groups": ["staff"]}
    refused = directory.playbook("preflight.yml", "-e", json.dumps(given), "--tags", "sssd")
    assert refused.returncode != 0
    assert "ldap://ldap.example.org does not use TLS, so passwords would be sent as plain text" in refused.stdout
    assert {counts["changed"] for counts in recap(refused.stdout).values()} == {0}


def test_external_directory_works(directory: Cluster) -> None:
    reader = {
        "identity_source": "external",
        "identity_groups": ["cluster-users"],
        "sssd_uris": ["ldaps://ctl"],
        "sssd_base": SUFFIX,
        "sssd_ca_file": "/etc/busbar/tls/ca.crt",
        "sssd_bind_dn": f"uid=erin,ou=people,{SUFFIX}",
        "sssd_bind_password": PASSWORDS["erin"],
    }
    try:
        done = directory.playbook("base.yml", "--tags", "sssd", "--limit", "login", "-e", json.dumps(reader))
        assert done.returncode == 0, done.stdout + done.stderr
        assert directory.exec("login", "sss_cache -E; getent -s sss passwd frank").returncode == 0
    finally:
        back = provisioned(directory, "--limit", "login")
    assert back.returncode == 0, back.stdout + back.stderr


def test_password_of_the_reader_is_rotated(directory: Cluster) -> None:
    path = directory.state / "secrets" / "ldap_reader.password"
    old = path.read_text(encoding="utf-8").strip()
    asked = json.dumps({"rotate_secrets": ["ldap_reader"]})
    done = directory.playbook("rotate_secrets.yml", *given(), "-e", asked)
    assert done.returncode == 0, done.stdout + done.stderr
    new = path.read_text(encoding="utf-8").strip()
    assert (new != old, path.with_name("ldap_reader.password_previous").exists()) == (True, False)
    bind = f"ldapwhoami -x -H ldapi:/// -D cn=reader,ou=services,{SUFFIX} -w"
    assert directory.exec("ctl", f"{bind} {shlex.quote(old)}", check=False).returncode != 0
    assert "cn=reader" in directory.exec("ctl", f"{bind} {shlex.quote(new)}").stdout
    for node in nodes(directory):
        directory.exec(node, "sss_cache -E; timeout 60 sh -c 'until id erin; do sleep 0.5; done'", timeout=90)


def test_second_run_changes_nothing(directory: Cluster) -> None:
    for arguments in ([], ["--check"]):
        done = provisioned(directory, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        assert {host: counts["changed"] for host, counts in recap(done.stdout).items() if counts["changed"]} == {}
    failed = {directory.exec(node, "systemctl --failed --no-legend").stdout for node in nodes(directory)}
    assert failed == {""}
    assert "validators: 0" in directory.exec("login", "sssctl config-check").stdout
