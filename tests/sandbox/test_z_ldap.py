"""Users of a directory: real slapd and sssd, logins by key and password, jobs, attacks, a directory that is away."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from conftest import Cluster, recap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.proves("ldap_server", "sssd")

ON: dict[str, Any] = {"identity_source": "ldap_server", "ssh_password_login": True}
OFF: dict[str, Any] = {"sssd_state": "absent"}
SUFFIX = "dc=example,dc=internal"
ROOT = "-Q -Y EXTERNAL -H ldapi:///"
TOOLS = "LDAPTLS_CACERT=/etc/busbar/tls/ca.crt"
PASSWORDS = {"erin": "correct horse of erin", "frank": "correct horse of frank", "dave": "correct horse of dave"}
INSUFFICIENT = 50
KEY_OF_FRANK = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMdOIs4ZUUzsmD91rKaOkv1ANjPLUmGbYBp/r858dVUk frank@laptop"


def _given(**more: object) -> list[str]:
    return ["-e", json.dumps({"identity_suffix": SUFFIX} | ON | more)]


def _run(sandbox: Cluster, *arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return sandbox.playbook("base.yml", "--tags", "ssh,tls,ldap_server,sssd", *_given(**more), *arguments)


def _person(name: str, number: int, gid: int, key: str = "") -> str:
    lines = [
        f"dn: uid={name},ou=people,{SUFFIX}",
        *(f"objectClass: {word}" for word in ("inetOrgPerson", "posixAccount", "ldapPublicKey")),
        f"cn: {name}",
        f"sn: {name}",
        f"uidNumber: {number}",
        f"gidNumber: {gid}",
        # Not where homes are here, which is not for the directory to say.
        "homeDirectory: /root",
        "loginShell: /bin/bash",
        f"userPassword: {PASSWORDS.get(name, 'nobody knows this one')}",
        *([f"sshPublicKey: {key}"] if key else []),
    ]
    return "\n".join([*lines, "", ""])


def _change(sandbox: Cluster, ldif: str, *, tool: str = "ldapmodify") -> None:
    sandbox.exec("ctl", f"printf %s {shlex.quote(ldif)} | {tool} {ROOT}")


def _member(group: str, name: str, how: str = "add") -> str:
    return f"dn: cn={group},ou=groups,{SUFFIX}\nchangetype: modify\n{how}: memberUid\nmemberUid: {name}\n\n"


def _as(sandbox: Cluster, user: str, tool: str, arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a tool of LDAP on the login node as a user who has logged in there, with their own password."""
    login = f"-x -H ldaps://ctl -D uid={user},ou=people,{SUFFIX} -w {shlex.quote(PASSWORDS[user])}"
    command = f"printf %s {shlex.quote(text)} | {TOOLS} {tool} {login} {arguments}"
    return sandbox.exec("login", command, user=user, check=False)


def _ssh(sandbox: Cluster, user: str, *options: str, command: str = "whoami") -> subprocess.CompletedProcess[str]:
    address = sandbox.exec("ctl", "getent ahostsv4 login | awk 'NR==1 {print $1}'").stdout.strip()
    known = sandbox.state / "secrets" / "known_hosts"
    common = ["-F", "none", "-o", f"UserKnownHostsFile={known}", "-o", "IdentityAgent=none", "-o", "ConnectTimeout=20"]
    return subprocess.run(
        ["ssh", *common, *options, f"{user}@{address}", command],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"SSH_ASKPASS": str(sandbox.state / "askpass"), "SSH_ASKPASS_REQUIRE": "force"},
    )


def _by_password(sandbox: Cluster, user: str, password: str) -> subprocess.CompletedProcess[str]:
    program = sandbox.state / "askpass"
    program.write_text(f"#!/bin/sh\necho {shlex.quote(password)}\n", encoding="utf-8")
    program.chmod(0o700)
    only = ["-o", "PreferredAuthentications=password", "-o", "NumberOfPasswordPrompts=1"]
    return _ssh(sandbox, user, *only, "-o", "PubkeyAuthentication=no")


def _by_key(sandbox: Cluster, user: str, key: Path) -> subprocess.CompletedProcess[str]:
    return _ssh(sandbox, user, "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-i", str(key))


def _nodes(sandbox: Cluster) -> list[str]:
    return ["ctl", "login", *sandbox.compute]


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SSH key of erin."""
    path = tmp_path_factory.mktemp("erin") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "erin@laptop", "-f", path], check=True)
    return path


@pytest.fixture(scope="module")
def directory(sandbox: Cluster, key: Path) -> Iterator[Cluster]:
    """A sandbox with a directory in which are erin and frank, who may log in, and dave, who may not."""
    before = sandbox.exec("ctl", "ls /etc/ldap /etc/sssd; systemctl is-active slapd sssd", check=False).stdout
    dry = _run(sandbox, "--check", "--diff")
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert sandbox.exec("ctl", "ls /etc/ldap /etc/sssd; systemctl is-active slapd sssd", check=False).stdout == before
    try:
        done = _run(sandbox, "--diff", "-vv")
        assert done.returncode == 0, done.stdout + done.stderr
        secret = (sandbox.state / "secrets" / "ldap_reader.password").read_text().strip()
        assert secret not in done.stdout + done.stderr
        group = f"dn: cn=dave,ou=groups,{SUFFIX}\nobjectClass: posixGroup\ngidNumber: 20050\n\n"
        people = [
            _person("erin", 20101, 20000, key.with_suffix(".pub").read_text().strip()),
            _person("frank", 20102, 20000, KEY_OF_FRANK),
            _person("dave", 20103, 20050),
        ]
        _change(sandbox, "".join([group, *people]), tool="ldapadd")
        for name in ("erin", "frank"):
            _change(sandbox, _member("cluster-users", name))
        yield sandbox
    finally:
        gone = sandbox.playbook("base.yml", "--tags", "ssh,sssd", "-e", json.dumps(OFF))
        units = "rm -rf /var/lib/ldap/* /etc/ldap/slapd.conf /etc/systemd/system/slapd.service; systemctl daemon-reload"
        sandbox.exec("ctl", f"systemctl disable --now slapd; {units}; rm -rf /shared/home/erin /shared/home/frank")
        assert gone.returncode == 0, gone.stdout + gone.stderr
        for node in _nodes(sandbox):
            assert (
                sandbox.exec(node, "getent passwd erin; systemctl is-active sssd", check=False).stdout == "inactive\n"
            )


@pytest.mark.core
def test_every_node_knows_them_by_the_same_numbers(directory: Cluster) -> None:
    for node in _nodes(directory):
        directory.exec(node, "timeout 60 sh -c 'until id erin; do sleep 0.5; done'", timeout=90)
    erin = "uid=20101(erin) gid=20000(cluster-users) groups=20000(cluster-users)\n"
    assert {directory.exec(node, "id erin; id alice").stdout for node in _nodes(directory)} == {
        erin + "uid=2001(alice) gid=2000(research) groups=2000(research)\n"
    }
    assert (
        directory.exec("login", "getent passwd erin").stdout == "erin:*:20101:20000:erin:/shared/home/erin:/bin/bash\n"
    )


@pytest.mark.core
def test_a_user_logs_in_by_key_and_by_password_to_a_home_of_her_own(directory: Cluster, key: Path) -> None:
    home = "stat -c '%U %a' /shared/home/erin"
    directory.wait_until(lambda: directory.exec("ctl", home, check=False).stdout == "erin 700\n", "no home", 90)
    for done in (_by_key(directory, "erin", key), _by_password(directory, "erin", PASSWORDS["erin"])):
        assert (done.returncode, done.stdout) == (0, "erin\n"), done.stderr
    assert directory.exec("login", "pwd; touch file && rm file", user="erin").stdout == "/shared/home/erin\n"
    alice = _by_key(directory, "alice", directory.state / "ssh" / "id_ed25519")
    assert alice.stdout == "alice\n", alice.stderr


@pytest.mark.core
def test_declared_users_still_need_a_job_on_a_compute_node(directory: Cluster) -> None:
    ssh = "ssh -o BatchMode=yes -o ConnectTimeout=10 gpu1 true"
    for user in ("alice", "bob"):
        done = directory.exec("login", ssh, user=user, check=False)
        assert (done.returncode, "you have no active jobs on this node" in done.stderr) == (255, True), done.stderr


def test_who_has_no_right_does_not_log_in(directory: Cluster, key: Path) -> None:
    wrong = _by_password(directory, "erin", "a wrong password")
    assert (wrong.returncode, "Permission denied" in wrong.stderr) == (255, True)
    assert _by_key(directory, "frank", key).returncode == 255
    outside = _by_password(directory, "dave", PASSWORDS["dave"])
    assert (outside.returncode, outside.stdout) == (255, "")
    assert directory.exec("ctl", "ls -d /shared/home/dave", check=False).returncode != 0
    _change(directory, _member("cluster-locked", "erin"))
    try:
        # sssd asks for groups once in a login; what it heard of them holds for some seconds.
        directory.wait_until(lambda: _by_key(directory, "erin", key).returncode == 255, "erin is not locked")
        done = _by_password(directory, "erin", PASSWORDS["erin"])
        assert (done.returncode, done.stdout) == (255, ""), done.stderr
    finally:
        _change(directory, _member("cluster-locked", "erin", "delete"))
    directory.wait_until(lambda: _by_key(directory, "erin", key).stdout == "erin\n", "erin is still locked")


def test_an_entry_with_the_name_of_an_admin_opens_nothing(directory: Cluster, key: Path) -> None:
    entry = _person("admin", 20109, 20000, key.with_suffix(".pub").read_text().strip())
    _change(directory, entry, tool="ldapadd")
    _change(directory, _member("cluster-users", "admin"))
    try:
        assert _by_key(directory, "admin", key).returncode == 255
        assert _by_password(directory, "admin", "nobody knows this one").returncode == 255
        refused = _run(directory, "--limit", "login")
        assert refused.returncode != 0
        assert "user admin is in /etc/passwd with uid" in refused.stdout
        assert "and in the directory ldaps://ctl:636 with uid 20109" in refused.stdout
    finally:
        _change(directory, _member("cluster-users", "admin", "delete"))
        directory.exec("ctl", f"ldapdelete {ROOT} uid=admin,ou=people,{SUFFIX}")


def test_a_number_that_is_taken_is_refused_with_both_names(directory: Cluster) -> None:
    accounts = yaml.safe_load((directory.inventory / "group_vars/all/zz_sandbox.yml").read_text())["users_accounts"]
    carol = {"name": "carol", "uid": 20101, "group": "research"}
    refused = _run(directory, "--limit", "login", users_accounts=[*accounts, carol])
    assert refused.returncode != 0
    assert "uid 20101 of user carol is taken by erin" in refused.stdout
    assert "give carol another uid" in refused.stdout


def test_nobody_reads_a_hash_or_writes_what_is_others(directory: Cluster) -> None:
    listed = _as(directory, "erin", "ldapsearch", f"-LLL -o ldif-wrap=no -b {SUFFIX} '*' +")
    assert f"dn: uid=frank,ou=people,{SUFFIX}" in listed.stdout
    for word in ("userPassword:", "ARGON2", "pwdHistory", KEY_OF_FRANK, "cn=reader"):
        assert word not in listed.stdout, word
    frank, erin = (f"dn: uid={name},ou=people,{SUFFIX}\nchangetype: modify\n" for name in ("frank", "erin"))
    for ldif in (
        f"{frank}replace: sshPublicKey\nsshPublicKey: ssh-ed25519 AAAA erin\n",
        f"{frank}replace: userPassword\nuserPassword: now it is mine\n",
        f"{erin}replace: uidNumber\nuidNumber: 20199\n",
        f"{erin}replace: gidNumber\ngidNumber: 0\n",
        _member("cluster-locked", "frank"),
        _person("grace", 20110, 20000).replace("objectClass", "changetype: add\nobjectClass", 1),
        f"dn: uid=frank,ou=people,{SUFFIX}\nchangetype: delete\n",
    ):
        done = _as(directory, "erin", "ldapmodify", "", ldif)
        assert done.returncode == INSUFFICIENT, (ldif, done.stdout, done.stderr)
    # A filter tells by what it finds, whatever it shows.
    guessed = _as(directory, "erin", "ldapsearch", f"-LLL -b {SUFFIX} '(userPassword=*)' dn")
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
    for node in _nodes(directory):
        unread = directory.exec(node, "cat /etc/sssd/sssd.conf /etc/ldap/slapd.conf", user="alice", check=False)
        assert unread.stdout == ""
    assert directory.exec("login", "ldapwhoami -x -H ldap://ctl", check=False).returncode != 0
    hashes = directory.exec("ctl", "slapcat -a '(uid=erin)' | grep -A2 ^userPassword").stdout
    assert PASSWORDS["erin"] not in hashes


def test_a_user_sets_her_own_key_and_password(directory: Cluster, tmp_path: Path) -> None:
    own = tmp_path / "own"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", own], check=True)
    start = f"dn: uid=frank,ou=people,{SUFFIX}\nchangetype: modify\n"
    public = own.with_suffix(".pub").read_text().strip()
    done = _as(directory, "frank", "ldapmodify", "", f"{start}replace: sshPublicKey\nsshPublicKey: {public}\n")
    assert done.returncode == 0, done.stderr
    directory.exec("login", "sss_cache -u frank")
    directory.wait_until(lambda: _by_key(directory, "frank", own).stdout == "frank\n", "the new key is not known")
    short = _as(directory, "frank", "ldappasswd", "-s short")
    assert short.returncode != 0
    assert "Password fails quality checking" in short.stdout + short.stderr
    other = "another horse of frank"
    done = _as(directory, "frank", "ldappasswd", f"-s {shlex.quote(other)}")
    assert done.returncode == 0, done.stderr
    assert _by_password(directory, "frank", PASSWORDS["frank"]).returncode == 255
    assert _by_password(directory, "frank", other).stdout == "frank\n"


@pytest.fixture(scope="module")
def associated(directory: Cluster) -> Iterator[Cluster]:
    """Erin has an association; her name resolved before it was made."""
    users = yaml.safe_load((directory.inventory / "group_vars/all/zz_sandbox.yml").read_text())["slurm_users"]
    erin = {"name": "erin", "accounts": ["research"], "default_account": "research"}
    unknown = {"name": "nobody-there", "accounts": ["research"], "default_account": "research"}
    tags = ["--tags", "slurm_accounting"]
    refused = directory.playbook("slurm.yml", *tags, *_given(slurm_users=[*users, erin, unknown]))
    assert refused.returncode != 0
    assert "slurm_users: nobody-there: no such user on this controller" in refused.stdout
    assert "erin" not in directory.exec("ctl", "sacctmgr -nP show assoc format=user").stdout
    done = directory.playbook("slurm.yml", *tags, *_given(slurm_users=[*users, erin]))
    assert done.returncode == 0, done.stdout + done.stderr
    yield directory
    directory.exec("ctl", "scancel --user=erin; sacctmgr -i delete user erin")


def test_a_job_runs_for_her_account(associated: Cluster) -> None:
    done = associated.exec("login", "srun --job-name=hers id -un", user="erin")
    assert done.stdout == "erin\n"
    listing = "sacct -nX --name=hers --user=erin -o Account,State%10"
    associated.wait_until(lambda: "COMPLETED" in associated.exec("ctl", listing).stdout, "not in the accounting", 30)
    assert associated.exec("ctl", listing).stdout.split()[:2] == ["research", "COMPLETED"]


def test_logins_and_jobs_go_on_while_the_directory_is_away(associated: Cluster, key: Path) -> None:
    number = associated.exec("login", "sbatch --parsable -o /dev/null --wrap 'sleep 300'", user="erin").stdout.strip()
    state = f"squeue -h -j {number} -o %T"
    associated.wait_until(lambda: associated.exec("ctl", state).stdout == "RUNNING\n", "the job does not run")
    assert _by_password(associated, "erin", PASSWORDS["erin"]).stdout == "erin\n"
    associated.exec("ctl", "systemctl stop slapd")
    try:
        for done in (_by_password(associated, "erin", PASSWORDS["erin"]), _by_key(associated, "erin", key)):
            assert (done.returncode, done.stdout) == (0, "erin\n"), done.stderr
        assert _by_password(associated, "erin", "a wrong password").returncode == 255
        assert associated.exec("login", "srun id -un", user="erin").stdout == "erin\n"
        assert associated.exec("ctl", state).stdout == "RUNNING\n"
        admin = _by_key(associated, "admin", associated.state / "ssh" / "id_ed25519")
        assert admin.stdout == "admin\n", admin.stderr
    finally:
        associated.exec("ctl", f"systemctl start slapd; scancel {number}")
    associated.wait_until(
        lambda: associated.exec("ctl", f"ldapwhoami {ROOT}", check=False).returncode == 0, "slapd is not back"
    )


def test_a_certificate_of_somebody_else_is_refused(directory: Cluster) -> None:
    make = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout /root/other.key -out /root/other.crt"
    )
    directory.exec("login", f"{make} && chmod 644 /root/other.crt")
    before = directory.exec("login", "cat /etc/sssd/sssd.conf").stdout
    refused = _run(directory, "--limit", "login", sssd_ca_file="/root/other.crt")
    directory.exec("login", "rm /root/other.*")
    assert refused.returncode != 0
    assert (
        "the directory is of no use: ldaps://ctl:636: ldap_sasl_bind(SIMPLE): Can't contact LDAP server"
        in refused.stdout
    )
    assert "sssd_ca_file" in refused.stdout
    assert directory.exec("login", "cat /etc/sssd/sssd.conf").stdout == before


def test_an_address_without_tls_is_refused_before_anything_changes(directory: Cluster) -> None:
    outside = {"identity_source": "external", "sssd_uris": ["ldap://ldap.example.org"], "sssd_base": SUFFIX}
    given = outside | {"identity_groups": ["staff"]}
    refused = directory.playbook("preflight.yml", "-e", json.dumps(given), "--tags", "sssd")
    assert refused.returncode != 0
    assert "ldap://ldap.example.org has no TLS: passwords would cross the network as plain text" in refused.stdout
    assert {counts["changed"] for counts in recap(refused.stdout).values()} == {0}


def test_an_outside_directory_serves_as_well(directory: Cluster) -> None:
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
        back = _run(directory, "--limit", "login")
    assert back.returncode == 0, back.stdout + back.stderr


def test_the_password_with_which_hosts_read_is_replaced(directory: Cluster) -> None:
    path = directory.state / "secrets" / "ldap_reader.password"
    old = path.read_text(encoding="utf-8").strip()
    asked = json.dumps({"rotate_secrets": ["ldap_reader"]})
    done = directory.playbook("rotate_secrets.yml", *_given(), "-e", asked)
    assert done.returncode == 0, done.stdout + done.stderr
    new = path.read_text(encoding="utf-8").strip()
    assert (new != old, path.with_name("ldap_reader.password_previous").exists()) == (True, False)
    bind = f"ldapwhoami -x -H ldapi:/// -D cn=reader,ou=services,{SUFFIX} -w"
    assert directory.exec("ctl", f"{bind} {shlex.quote(old)}", check=False).returncode != 0
    assert "cn=reader" in directory.exec("ctl", f"{bind} {shlex.quote(new)}").stdout
    for node in _nodes(directory):
        directory.exec(node, "sss_cache -E; timeout 60 sh -c 'until id erin; do sleep 0.5; done'", timeout=90)


def test_a_second_run_changes_nothing(directory: Cluster) -> None:
    for arguments in ([], ["--check"]):
        done = _run(directory, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        assert {host: counts["changed"] for host, counts in recap(done.stdout).items() if counts["changed"]} == {}
    failed = {directory.exec(node, "systemctl --failed --no-legend").stdout for node in _nodes(directory)}
    assert failed == {""}
    assert "validators: 0" in directory.exec("login", "sssctl config-check").stdout
