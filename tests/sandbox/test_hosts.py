"""Tests of host names, time and limits from the view of users and daemons."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from conftest import recap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("hosts")

KERNEL_FILES = "/etc/security/limits.d/80-busbar.conf /etc/sysctl.d/80-busbar.conf"
SOURCES = "chronyc -n sources | tail -n +3"


def _nodes(sandbox: Cluster) -> list[str]:
    return ["ctl", "login", *sandbox.compute]


@pytest.mark.core
def test_every_node_resolves_every_other_to_one_address(sandbox: Cluster) -> None:
    answers = {
        node: sandbox.exec(node, f"getent ahostsv4 {' '.join(_nodes(sandbox))} | awk '{{print $1}}' | sort -u").stdout
        for node in _nodes(sandbox)
    }
    assert len(set(answers.values())) == 1
    assert len(answers["ctl"].split()) == len(_nodes(sandbox))


@pytest.mark.core
def test_users_can_run_rsync_and_git_on_the_login_node(sandbox: Cluster) -> None:
    script = "git init -q tree && echo 1 >tree/a && rsync -a tree/ copy/ && cat copy/a; rm -rf tree copy"
    assert sandbox.exec("login", script, user="alice").stdout == "1\n"


def test_no_host_name_resolves_to_loopback(sandbox: Cluster) -> None:
    for node in _nodes(sandbox):
        assert sandbox.exec(node, "hostname").stdout.strip() == node
        assert "127." not in sandbox.exec(node, f"getent hosts {node}").stdout
        assert "127.0.1.1" not in sandbox.exec(node, "cat /etc/hosts").stdout


def test_lost_hosts_block_is_restored_and_stale_names_are_removed(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    before = sandbox.exec(node, "cat /etc/hosts").stdout
    # Written in place, because the file may be a bind mount in a container.
    sandbox.exec(
        node, f"printf '127.0.0.1 localhost\\n::1 localhost\\n127.0.1.1 {node}\\n192.0.2.1 ctl\\n' > /etc/hosts"
    )
    done = sandbox.playbook("base.yml", "--limit", node, "--tags", "hosts")
    assert done.returncode == 0, done.stdout + done.stderr
    after = sandbox.exec(node, "cat /etc/hosts").stdout
    assert "192.0.2.1" not in after
    assert after[after.index("# BEGIN busbar") :] == before[before.index("# BEGIN busbar") :]


def follows(sandbox: Cluster, node: str) -> bool:
    """Return whether the node has selected a time source."""
    return "^*" in sandbox.exec(node, SOURCES).stdout


@pytest.mark.core
def test_clients_follow_only_the_site_time_source(sandbox: Cluster) -> None:
    address = sandbox.exec("ctl", "getent ahostsv4 ctl | awk 'NR==1 {print $1}'").stdout.strip()
    for node in ["login", *sandbox.compute]:
        # A client notices a restart of the source at its next poll, after 64 s at most.
        sandbox.wait_until(partial(follows, sandbox, node), f"{node} follows no source", 150)
        lines = sandbox.exec(node, SOURCES).stdout.splitlines()
        assert [line.split()[:2] for line in lines] == [["^*", address]]


def test_site_time_source_serves_its_own_clock(sandbox: Cluster) -> None:
    tracking = sandbox.exec("ctl", "chronyc -n tracking").stdout
    assert "Stratum         : 10" in tracking


def test_chrony_runs_and_is_enabled(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    assert sandbox.host(node).service("chrony").is_running
    assert sandbox.host(node).service("chrony").is_enabled


@pytest.fixture
def kernel_node(sandbox: Cluster) -> Iterator[str]:
    """Return a node on which a test may write limits and sysctl settings; they are removed at the end."""
    node = sandbox.compute[0]
    yield node
    sandbox.exec(node, f"rm -f {KERNEL_FILES}")


def test_limits_and_sysctl_settings_are_written_where_configured(sandbox: Cluster, kernel_node: str) -> None:
    limits = "[{domain: '*', type: soft, item: nofile, value: 8000}]"
    extra = f"{{hosts_kernel_managed: true, hosts_sysctl_apply: false, hosts_limits: {limits}}}"
    done = sandbox.playbook("base.yml", "--limit", kernel_node, "--tags", "hosts", "-e", extra)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sandbox.exec(kernel_node, "ulimit -Sn", user="alice").stdout.strip() == "8000"
    settings = sandbox.exec(kernel_node, "cat /etc/sysctl.d/80-busbar.conf").stdout
    assert "net.core.rmem_max = 268435456" in settings


def test_no_sysctl_settings_are_written_in_a_container(sandbox: Cluster) -> None:
    for node in ("ctl", "login"):
        assert sandbox.exec(node, f"ls {KERNEL_FILES}", check=False).stdout == ""


def options_of_proc(sandbox: Cluster, node: str) -> str:
    """Return the mount options of /proc."""
    return sandbox.exec(node, "findmnt -n -o FS-OPTIONS /proc").stdout


def sees_all_processes(sandbox: Cluster, unit: str) -> bool:
    """Return whether a service of the login node is in the group that sees all processes."""
    number = sandbox.exec("login", "getent group busbar-proc | cut -d: -f3").stdout.strip()
    pid = sandbox.exec("login", f"systemctl show -p MainPID --value {unit}").stdout.strip()
    return number in sandbox.exec("login", f"grep ^Groups: /proc/{pid}/status").stdout.split()[1:]


def play_processes(sandbox: Cluster, *arguments: str) -> dict[str, int]:
    """Run the tasks for /proc on the login node and return the counts of its recap."""
    done = sandbox.playbook("base.yml", "--limit", "login", "--tags", "hosts_processes", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return recap(done.stdout)["login"]


@pytest.mark.core
def test_users_see_only_their_own_processes(sandbox: Cluster) -> None:
    """The controller, which has no user logins, is not changed."""
    assert "hidepid" not in options_of_proc(sandbox, "ctl")
    for node in ("login", *sandbox.compute):
        assert "hidepid=invisible" in options_of_proc(sandbox, node)
        sandbox.exec(node, "systemd-run --quiet --uid=bob --unit=busbar-test-bob sleep 4712")
        seen = "ps -eo args | grep '[s]leep 4712'; systemctl status busbar-test-bob --no-pager"
        shown = sandbox.exec(node, seen, user="alice", check=False)
        assert "─" not in shown.stdout, shown.stdout
        assert "sleep 4712" in sandbox.exec(node, "ps -eo args").stdout
        assert "sleep 4712" in sandbox.exec(node, "ps -eo args", user="bob").stdout
        sandbox.exec(node, "systemctl stop busbar-test-bob")
    assert sees_all_processes(sandbox, "systemd-logind")


def test_hiding_of_processes_can_be_disabled_and_is_restored(sandbox: Cluster) -> None:
    """Disabled, enabled and corrected after a manual change; check mode reports the same and changes nothing."""
    off = ("-e", "hosts_hide_processes=false")
    assert play_processes(sandbox)["changed"] == 0
    assert play_processes(sandbox, *off, "--check")["changed"] > 0
    assert "hidepid=invisible" in options_of_proc(sandbox, "login")
    assert play_processes(sandbox, *off)["changed"] > 0
    try:
        assert "hidepid" not in options_of_proc(sandbox, "login")
        assert "systemd" in sandbox.exec("login", "ps -eo args", user="alice").stdout
        assert play_processes(sandbox, *off)["changed"] == 0
    finally:
        assert play_processes(sandbox)["changed"] > 0
    assert play_processes(sandbox)["changed"] == 0
    sandbox.exec("login", "mount -o remount,hidepid=off /proc")
    assert play_processes(sandbox, "--check")["changed"] == 1
    assert play_processes(sandbox)["changed"] == 1
    assert "hidepid=invisible" in options_of_proc(sandbox, "login")
