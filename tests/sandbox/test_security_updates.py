"""Tests of automatic security updates: only security updates are installed, and no held packages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from conftest import recap
from trial_archive import PLAIN, SECURITY, forget, offer, versions

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("security_updates")

NODE = "login"
TRIALS = {"trial-hole": SECURITY, "slurm-trial": SECURITY, "trial.kept": SECURITY, "trial-plain": PLAIN}
ON = {"security_updates_enabled": True, "security_updates_exclude": ["trial.k"]}
# Only the archives of the test, so that the node gets no other updates, not even today's security updates.
ALONE = """mkdir -p /var/tmp/trial-sources; cp /etc/apt/sources.list.d/trial-*.list /var/tmp/trial-sources
cat >/var/tmp/trial-apt.conf <<'END'
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "/var/tmp/trial-sources";
APT::Get::List-Cleanup "false";
END
export APT_CONFIG=/var/tmp/trial-apt.conf; apt-get -q update && unattended-upgrade -v
rm -r /var/tmp/trial-sources /var/tmp/trial-apt.conf
"""


def play(sandbox: Cluster, options: dict[str, object], *arguments: str) -> subprocess.CompletedProcess[str]:
    given = ("--tags", "security_updates", "--limit", NODE, "-e", json.dumps(options))
    return sandbox.playbook("base.yml", *given, *arguments)


def configure(sandbox: Cluster, options: dict[str, object], *arguments: str) -> int:
    """Run the role on the login node; return the number of changed tasks."""
    done = play(sandbox, options, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return recap(done.stdout)[NODE]["changed"]


def periodic(sandbox: Cluster) -> str:
    """Return whether apt's timer starts the updater: the last configured value."""
    return sandbox.exec(NODE, "apt-config shell ON APT::Periodic::Unattended-Upgrade").stdout.strip()


@pytest.fixture(scope="module", autouse=True)
def updater(sandbox: Cluster) -> Iterator[None]:
    """Enable the updater on the login node; disabled at the end."""
    configure(sandbox, ON)
    yield
    assert configure(sandbox, {}) > 0
    assert periodic(sandbox) == "ON='0'"
    assert "06:00" in sandbox.exec(NODE, "systemctl show -p TimersCalendar apt-daily-upgrade.timer").stdout
    assert configure(sandbox, {}) == 0


@pytest.mark.scenario
def test_only_security_updates_are_installed(sandbox: Cluster) -> None:
    assert periodic(sandbox) == "ON='1'"
    timer = sandbox.exec(
        NODE, "systemctl show -p TimersCalendar -p ActiveState -p UnitFileState apt-daily-upgrade.timer"
    )
    assert "OnCalendar=*-*-* 03:30:00" in timer.stdout
    assert "06:00" not in timer.stdout
    assert {"ActiveState=active", "UnitFileState=enabled"} <= {*timer.stdout.split()}
    offer(sandbox, NODE, TRIALS)
    try:
        said = sandbox.exec(NODE, ALONE, timeout=300).stdout
        kept = ["slurm-trial 1", "trial-hole 2", "trial-plain 1", "trial.kept 1"]
        assert versions(sandbox, NODE, TRIALS) == kept, said
    finally:
        forget(sandbox, NODE, TRIALS)
    assert configure(sandbox, ON) == 0


def test_check_mode_shows_and_changes_nothing(sandbox: Cluster) -> None:
    changed = {**ON, "security_updates_calendar": "Sun *-*-* 05:00"}
    done = play(sandbox, changed, "--check", "--diff")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "+OnCalendar=Sun *-*-* 05:00" in done.stdout
    assert "03:30" in sandbox.exec(NODE, "systemctl show -p TimersCalendar apt-daily-upgrade.timer").stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"security_updates_calendar": "half past three"}, "half past three is not a valid calendar event"),
        ({"security_updates_spread_s": -1}, "security_updates_spread_s: -1 s is below 0"),
        ({"security_updates_exclude": ["mariadb*"]}, "contains invalid prefixes of package names: mariadb*"),
    ],
)
def test_bad_input_is_refused_before_any_change(sandbox: Cluster, options: dict[str, object], said: str) -> None:
    done = play(sandbox, {**ON, **options})
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in " ".join(f"{done.stdout} {done.stderr}".split())
    assert recap(done.stdout)[NODE]["changed"] == 0
