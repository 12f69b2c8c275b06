"""Tests of attacks on the validation: by root of a controller, by users of its nodes, and by its programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from conftest import QUICK, recap
from validations import validate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("validation")

# Precedes Slurm's own program in root's PATH: it forges the output for finished jobs and is unchanged otherwise.
FORGED = """#!/bin/sh
case "$*" in
  *"show job"*) /usr/bin/scontrol "$@" | sed -E 's#BatchHost=[^ ]*#BatchHost={host}#; s#StdOut=[^ ]*#StdOut={path}#' ;;
  *) exec /usr/bin/scontrol "$@" ;;
esac
"""


@pytest.fixture
def coveted(sandbox: Cluster) -> Iterator[Path]:
    """Return a secret of the provisioning host; the controller's forged scontrol names it as an output file."""
    key = sandbox.state / "secrets" / "ssh_ca"
    script = FORGED.format(host="localhost", path=key)
    sandbox.exec("ctl", f"cat >/usr/local/bin/scontrol <<'EOF'\n{script}EOF\nchmod 755 /usr/local/bin/scontrol")
    yield key
    sandbox.exec("ctl", "rm /usr/local/bin/scontrol")


@pytest.mark.core
def test_controller_cannot_make_the_provisioning_host_read_or_delete_its_own_files(
    sandbox: Cluster, coveted: Path
) -> None:
    before = coveted.read_bytes()
    sandbox.wait_idle()
    done, report = validate(sandbox, *QUICK, "-e", '{"validation_stages": ["cluster"]}')
    assert coveted.read_bytes() == before
    assert done.returncode != 0
    assert report["verdict"] == "INCONCLUSIVE"
    assert "ctl returned batch_host 'localhost' for the test cluster, which is not one of its nodes" in report["reason"]
    folder = (sandbox.state / "reports" / "latest").resolve()
    assert [file for file in folder.iterdir() if before.split(b"\n")[1] in file.read_bytes()] == []


HOME = "/var/lib/busbar-validation"
# A malicious program of a validation replaces the output file, which root fetches and deletes, by a link.
SWAPPED = f"""#!/bin/sh
out={HOME}/busbar-validation-$SLURM_JOB_ID.out
rm "$out" && ln -s /etc/shadow "$out" && id -u
"""


@pytest.fixture
def program(sandbox: Cluster) -> Iterator[str]:
    """Install a program on the nodes that replaces its output by a link."""
    path = "/usr/local/bin/swaps-its-output"
    for node in sandbox.compute:
        sandbox.exec(node, f"cat >{path} <<'EOF'\n{SWAPPED}EOF\nchmod 755 {path}")
    yield path
    for node in sandbox.compute:
        sandbox.exec(node, f"rm -f {path} {HOME}/busbar-validation-*.out")


def test_output_replaced_by_a_link_is_not_followed(sandbox: Cluster, program: str) -> None:
    sandbox.wait_idle()
    shadow = sandbox.exec(sandbox.compute[0], "cat /etc/shadow").stdout
    options = {"validation_stages": ["node"], "validation_node_checks": ["p2p"]}
    _done, report = validate(sandbox, *QUICK, "-e", json.dumps(options | {"validation_p2p_binary": program}))
    checks = [test for test in report["tests"] if test["kind"] == "p2p"]
    wanted = [f"the output could not be fetched from {node}" for node in sorted(sandbox.compute)]
    assert sorted(test["reason"] for test in checks) == wanted
    folder = (sandbox.state / "reports" / "latest").resolve()
    line = shadow.splitlines()[0]
    assert [file for file in folder.iterdir() if line in file.read_text(encoding="utf-8", errors="replace")] == []
    assert sandbox.exec(sandbox.compute[0], "cat /etc/shadow").stdout == shadow


def test_jobs_run_as_an_unprivileged_user(sandbox: Cluster) -> None:
    who = "busbar-validation"
    number = sandbox.exec("ctl", f"id -u {who}").stdout
    for node in ("ctl", *sandbox.compute):
        assert sandbox.exec(node, f"id -u {who}").stdout == number
        assert sandbox.exec(node, f"id -Gn {who}").stdout.split() == [who]
        assert sandbox.exec(node, f"passwd -S {who}").stdout.split()[1] == "L"
        # Slurm and Enroot start the login shell of the account.
        assert sandbox.exec(node, f"getent passwd {who}").stdout.strip().endswith(":/bin/sh")
        assert sandbox.exec(node, f"sudo -n -l -U {who}", check=False).stdout.count("may run") == 0
    sandbox.wait_idle()
    begun = sandbox.exec("ctl", "date +%Y-%m-%dT%H:%M:%S").stdout.strip()
    done, _report = validate(sandbox, *QUICK, "-e", '{"validation_stages": ["cluster"]}')
    assert done.returncode == 0, done.stdout
    jobs = "sacct -aXn -P -o user,account --name busbar-cluster -S"
    sandbox.wait_until(lambda: sandbox.exec("ctl", f"{jobs} {begun}").stdout != "", "no job in accounting")
    assert set(sandbox.exec("ctl", f"{jobs} {begun}").stdout.split()) == {f"{who}|root"}


def test_account_with_the_shell_of_earlier_releases_is_corrected(sandbox: Cluster) -> None:
    node, shell = sandbox.compute[0], "getent passwd busbar-validation | cut -d: -f7"
    sandbox.exec(node, "usermod -s /usr/sbin/nologin busbar-validation")
    only = ("--limit", node, "-t", "validation_install")
    for arguments, changed, after in (
        (("--check", "--diff"), 1, "/usr/sbin/nologin"),
        ((), 1, "/bin/sh"),
        ((), 0, "/bin/sh"),
    ):
        done = sandbox.playbook("validate.yml", *only, *arguments)
        assert done.returncode == 0, done.stdout
        assert {counts["changed"] for counts in recap(done.stdout).values()} == {changed}, done.stdout
        assert sandbox.exec(node, shell).stdout.strip() == after


@pytest.fixture
def keys(sandbox: Cluster) -> Iterator[None]:
    """Create a key of alice on the login node that both her account and the validation's account accept.

    Both accounts have a job on the node, so pam_slurm_adopt admits them.
    """
    node, files = sandbox.compute[0], ".ssh/authorized_keys"
    sandbox.wait_idle()
    sandbox.exec("login", "rm -f ~/attack ~/attack.pub && ssh-keygen -q -t ed25519 -N '' -f ~/attack", user="alice")
    key = sandbox.exec("login", "cat ~/attack.pub", user="alice").stdout.strip()
    for user, home in (("alice", "~alice"), ("busbar-validation", HOME)):
        add = f"umask 077; mkdir -p {home}/.ssh && echo '{key}' >{home}/{files} && chown -R {user}: {home}/.ssh"
        sandbox.exec(node, add)
    become = "setpriv --reuid=busbar-validation --regid=busbar-validation --init-groups"
    job = f"sbatch --parsable -w {node} -n1 -c1 --mem=50 --chdir=/ -o /dev/null --wrap 'exec sleep 600'"
    numbers = [sandbox.exec("ctl", f"{become} {job}").stdout.strip()]
    numbers.append(sandbox.exec("login", job, user="alice").stdout.strip())
    running = f"squeue -h -t R -j {','.join(numbers)} -o %i"
    sandbox.wait_until(lambda: len(sandbox.exec("ctl", running).stdout.split()) == 2, "the jobs do not run")
    yield
    sandbox.exec("ctl", f"scancel {' '.join(numbers)}")
    sandbox.exec(node, f"rm -rf {HOME}/.ssh ~alice/.ssh")
    sandbox.exec("login", "rm -rf ~/attack ~/attack.pub ~/.ssh", user="alice")
    sandbox.wait_idle()


@pytest.mark.usefixtures("keys")
def test_account_does_not_accept_su_sudo_or_logins(sandbox: Cluster) -> None:
    who, node = "busbar-validation", sandbox.compute[0]
    ssh = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o PreferredAuthentications={} -o IdentitiesOnly=yes -i ~/attack"
    for way in ("publickey", "hostbased", "hostbased,publickey,password,keyboard-interactive"):
        done = sandbox.exec("login", f"{ssh.format(way)} {who}@{node} id", user="alice", check=False)
        assert (done.returncode, done.stdout) == (255, ""), way
        assert "Permission denied" in done.stderr
    # From a job of the account itself, which root of a node could start.
    done = sandbox.exec(sandbox.compute[1], f"ssh -o BatchMode=yes {who}@{node} id", user=who, check=False)
    assert (done.returncode, done.stdout) == (255, "")
    # The control: alice's own account accepts the same key.
    done = sandbox.exec("login", f"{ssh.format('publickey')} {node} id -un", user="alice")
    assert done.stdout == "alice\n"
    for attempt in (f"su {who} -c id </dev/null", f"su - {who} -c id </dev/null", f"sudo -n -u {who} id"):
        done = sandbox.exec(node, attempt, user="alice", check=False)
        assert done.returncode != 0, attempt
        assert "uid=" not in done.stdout


def test_another_user_cannot_read_change_or_end_a_validation(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    node, out = sandbox.compute[0], f"{HOME}/busbar-validation-attack.out"
    become = "setpriv --reuid=busbar-validation --regid=busbar-validation --init-groups"
    submit = f"sbatch --parsable --exclusive -w {node} --chdir=/ -o {out} -J busbar-cluster --wrap"
    job = sandbox.exec("ctl", f"{become} {submit} 'echo secret; exec sleep 300'").stdout.strip()
    try:
        sandbox.wait_until(lambda: sandbox.exec(node, f"cat {out}", check=False).stdout == "secret\n", "no output")
        attempts = (
            f"cat {out}",
            f"ls {HOME}",
            f"ln -sf /etc/passwd {out}",
            f"mv {HOME} {HOME}-old",
            f"echo forged >{out}",
            "cat /proc/$(pgrep -u busbar-validation -x sleep)/environ",
        )
        for attempt in attempts:
            done = sandbox.exec(node, attempt, user="alice", check=False)
            assert done.returncode != 0, attempt
            assert "secret" not in done.stdout
        for attempt in (f"scancel {job}", f"scontrol update jobid={job} nice=1", f"scontrol hold {job}"):
            sandbox.exec("login", attempt, user="alice", check=False)
        shown = sandbox.exec("ctl", f"scontrol -o show job {job}").stdout
        assert "JobState=RUNNING" in shown
        assert " Nice=0 " in shown
        assert sandbox.exec(node, f"cat {out}").stdout == "secret\n"
    finally:
        sandbox.exec("ctl", f"scancel {job}")
        sandbox.wait_idle()
        sandbox.exec(node, f"rm -f {out}")


def test_uid_in_use_is_refused_and_second_run_changes_nothing(sandbox: Cluster) -> None:
    only = ("--limit", sandbox.compute[0], "-t", "validation_install")
    done = sandbox.playbook("validate.yml", *only, "-e", "validation_uid=2001")
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    assert "validation_uid: user busbar-validation has uid 470 there and not 2001" in said
    done = sandbox.playbook("validate.yml", *only, "-e", "validation_user=other-user validation_uid=2001")
    said = " ".join(done.stdout.split())
    assert done.returncode != 0
    assert "validation_uid: uid 2001 of user other-user is taken by alice" in said
    for words in ("validation_output_dir=/tmp", "validation_output_dir=/etc/passwd"):
        done = sandbox.playbook("validate.yml", *only, "-e", words)
        assert "is not a directory that is owned by root and writable only by root" in " ".join(done.stdout.split())
    done = sandbox.playbook("validate.yml", *only)
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, done.stdout
