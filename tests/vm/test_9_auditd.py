"""auditd on a machine with a kernel of its own: what is recorded, what is not, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from virtual_machines import CLIENT, TOP, recap, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from virtual_machines import Machines

pytestmark = pytest.mark.proves("auditd")

PLAYBOOK = TOP / "playbooks" / "auditd.yml"
ON = {"auditd_enabled": True, "auditd_log_mb": 1, "auditd_log_files": 2}


def configure(machines: Machines, *arguments: str, **options: object) -> dict[str, int]:
    """Run the playbook on one machine; its counts."""
    done = machines.play(PLAYBOOK, "--limit", CLIENT, *arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return recap(done.stdout)[CLIENT]


@pytest.fixture(scope="module")
def audited(machines: Machines) -> Iterator[Machines]:
    """A machine with auditd, without it again at the end."""
    machines.ssh(
        CLIENT, "install -d -m 0700 /etc/munge && echo secret >/etc/munge/munge.key && chmod 0600 /etc/munge/munge.key"
    )
    planned = configure(machines, "--check", "--diff", **ON)
    assert planned["changed"] > 0
    assert machines.ssh(CLIENT, "test -e /etc/audit/rules.d/50-busbar.rules", check=False).returncode != 0
    configure(machines, **ON)
    yield machines
    configure(machines, auditd_enabled=False)
    assert machines.output(CLIENT, "auditctl -l") == "No rules"
    assert (
        machines.output(CLIENT, "systemctl is-enabled auditd; systemctl is-active auditd; true") == "disabled\ninactive"
    )
    assert configure(machines, auditd_enabled=False)["changed"] == 0


def test_a_second_run_changes_nothing(audited: Machines) -> None:
    assert configure(audited, **ON)["changed"] == 0
    assert configure(audited, "--check", "--diff", **ON)["changed"] == 0


@pytest.mark.parametrize(
    ("key", "does"),
    [
        ("busbar-identity", "touch /etc/passwd"),
        ("busbar-access", "touch /etc/sudoers.d/somebody; rm /etc/sudoers.d/somebody"),
        ("busbar-cluster", "touch /etc/munge/x; rm /etc/munge/x"),
        ("busbar-secrets", "cat /etc/munge/munge.key >/dev/null"),
        ("busbar-root", "true; /bin/true"),
        ("busbar-elevated", "true"),
        ("busbar-modules", "modprobe -r dummy; modprobe dummy; modprobe -r dummy"),
        ("busbar-time", "date -s \"$(date '+%F %T')\" >/dev/null"),
    ],
)
def test_what_matters_is_recorded(audited: Machines, key: str, does: str) -> None:
    """By somebody who has logged in and uses sudo, as all of these connections do."""
    before = events(audited, key)
    audited.ssh(CLIENT, does)
    wait_until(lambda: events(audited, key) > before, f"nothing has the key {key}", 60)


def test_who_becomes_root_in_a_job_is_recorded(audited: Machines) -> None:
    """Without a login, and by a program that is root's for everybody."""
    by_nobody = "-ui nobody"
    before = events(audited, "busbar-elevated", by_nobody)
    audited.ssh(CLIENT, "systemd-run --quiet --wait --uid=nobody mount --version")
    wait_until(lambda: events(audited, "busbar-elevated", by_nobody) > before, "it has no record", 60)


def events(machines: Machines, key: str, more: str = "") -> int:
    """How many records have a key; the search itself makes some of root's."""
    return int(
        machines.output(CLIENT, f"ausearch --input-logs -k {key} {more} --raw 2>/dev/null | grep -c type=SYSCALL; true")
    )


def test_the_log_has_an_end(audited: Machines) -> None:
    configured = audited.output(
        CLIENT, "grep -E '^(max_log_file|num_logs|max_log_file_action|disk_full_action) ' /etc/audit/auditd.conf"
    )
    assert configured.split("\n") == [
        "max_log_file = 1",
        "num_logs = 2",
        "max_log_file_action = ROTATE",
        "disk_full_action = SUSPEND",
    ]
    # By few processes: each of root is recorded itself, and an emulated one takes its time.
    seen = {rotated(audited)}
    for _batch in range(60):
        audited.ssh(CLIENT, f"i=0; while [ $i -lt 50 ]; do i=$((i + 1)); auditctl -m {'x' * 900} || exit 1; done")
        seen.add(rotated(audited))
        if len(seen) > 3:
            break
    assert len(seen) > 3, seen
    sizes = audited.output(CLIENT, "stat -c %s /var/log/audit/*").split("\n")
    assert len(sizes) == 2
    assert sum(map(int, sizes)) < 3 * 1024 * 1024


def rotated(machines: Machines) -> str:
    """Which file is the older one; it is another one each time that the log is rotated."""
    return machines.output(CLIENT, "stat -c '%i %Z' /var/log/audit/audit.log.1 2>/dev/null; true")


def test_a_job_makes_no_record_and_takes_as_long(audited: Machines) -> None:
    """A job has no login: thousands of files and processes of its own are none of the rules' business."""
    script = "cd $(mktemp -d); for i in $(seq 300); do echo $i >f$i; cat f$i >/dev/null; done"
    job = f"systemd-run --quiet --wait --pipe --uid=nobody --setenv=HOME=/tmp sh -c '{script}'"
    lost = audited.output(CLIENT, "auditctl -s | grep ^lost")
    rules = audited.output(CLIENT, "ausearch --input-logs --raw -ui nobody 2>/dev/null | grep -c 'key=\"busbar'; true")
    audited.ssh(CLIENT, job)
    assert (
        audited.output(CLIENT, "ausearch --input-logs --raw -ui nobody 2>/dev/null | grep -c 'key=\"busbar'; true")
        == rules
    )
    assert audited.output(CLIENT, "auditctl -s | grep ^lost") == lost
