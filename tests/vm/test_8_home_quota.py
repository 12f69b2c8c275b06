"""Tests of home quotas on a file server: real XFS, users who write over NFS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from virtual_machines import CLIENT, SERVER, recap

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from virtual_machines import Machines

pytestmark = pytest.mark.proves("home_quota")

DISK = "/var/lib/homes.img"
BY_HAND, NEW = 4001, 4002
GIVEN: dict[str, Any] = {
    "users_home_base": "/homes/home",
    "home_quota_default": "20M",
    "home_quota_users": {"bob": "60M"},
    "nfs_server_exports": [{"path": "/shared"}, {"path": "/projects"}, {"path": "/homes"}],
}
OFF = GIVEN | {"home_quota_default": "", "home_quota_users": {}}


def provisioned(machines: Machines, *arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    tags = "nfs_server,home_quota"
    return machines.provision("--limit", SERVER, "--tags", tags, *arguments, **(GIVEN | more))


def limits(machines: Machines) -> dict[str, tuple[str, str]]:
    """Return soft and hard limit in KiB of each user, by name or UID."""
    rows = machines.output(SERVER, "repquota -u -O csv /homes | grep -A99 ^User, | tail -n +2").splitlines()
    return {row.split(",")[0].lstrip("#"): (row.split(",")[4], row.split(",")[5]) for row in rows}


@pytest.fixture(scope="module")
def homes(machines: Machines) -> Iterator[Machines]:
    """Create an XFS for the homes on the server."""
    make = f"truncate -s 400M {DISK} && mkfs.xfs -q {DISK} && mkdir -p /homes && mount -o loop,usrquota {DISK} /homes"
    machines.ssh(SERVER, f"command -v mkfs.xfs || apt-get -qq install -y xfsprogs; {make}", timeout=600)
    own = "; ".join(f"install -d -o {user} -m 700 /homes/home/{user}" for user in ("alice", "bob", BY_HAND))
    machines.ssh(SERVER, f"mkdir /homes/home; {own}")
    try:
        yield machines
    finally:
        machines.ssh(CLIENT, "umount -l /mnt/homes; rmdir /mnt/homes", check=False)
        back = machines.provision("--limit", SERVER, "--tags", "nfs_server,home_quota")
        machines.ssh(SERVER, f"umount -l /homes; rm -rf {DISK} /var/lib/busbar-home-quota", check=False)
        assert back.returncode == 0, back.stdout + back.stderr


@pytest.fixture(scope="module")
def limited(homes: Machines) -> Machines:
    """Return the machines with quotas enabled."""
    done = provisioned(homes)
    assert done.returncode == 0, done.stdout + done.stderr
    return homes


def test_file_system_without_quotas_is_refused_before_any_change(homes: Machines) -> None:
    mount = f"umount /homes && mount -o {{}} {DISK} /homes"
    homes.ssh(SERVER, mount.format("loop"))
    # The export itself is accepted.
    exported = homes.provision("--limit", SERVER, "--tags", "nfs_server", **GIVEN)
    refused = provisioned(homes)
    homes.ssh(SERVER, mount.format("loop,usrquota"))
    assert exported.returncode == 0, exported.stdout + exported.stderr
    assert refused.returncode != 0
    assert "/homes is mounted without user quotas" in refused.stdout
    assert "add usrquota to its options in /etc/fstab" in refused.stdout
    assert recap(refused.stdout)[SERVER]["changed"] == 0


def test_dry_run_and_second_run_change_nothing(homes: Machines) -> None:
    look = "ls /etc/busbar /var/lib/busbar-home-quota; dpkg-query -W quota; systemctl is-active busbar-home-quota.timer"
    before = homes.ssh(SERVER, look, check=False).stdout
    dry = provisioned(homes, "--check", "--diff")
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert homes.ssh(SERVER, look, check=False).stdout == before
    for changes in (True, False):
        done = provisioned(homes)
        assert done.returncode == 0, done.stdout + done.stderr
        assert bool(recap(done.stdout)[SERVER]["changed"]) is changes, done.stdout
    assert homes.output(SERVER, "systemctl is-active busbar-home-quota.timer") == "active"


def test_users_have_the_default_quota_and_a_declared_user_has_another(limited: Machines) -> None:
    found = limits(limited)
    assert (found["alice"], found["bob"]) == (("18432", "20480"), ("55296", "61440"))


@pytest.mark.scenario
def test_user_cannot_exceed_the_quota_over_nfs_and_another_can_write(limited: Machines) -> None:
    server = limited.group.machine(SERVER).address
    limited.ssh(CLIENT, f"mkdir -p /mnt/homes && mount -t nfs4 {server}:/homes /mnt/homes")
    write = "runuser -u {0} -- sh -c 'head -c 30M /dev/zero >/mnt/homes/home/{0}/data && sync /mnt/homes/home/{0}/data'"
    full = limited.ssh(CLIENT, write.format("alice"), check=False)
    assert full.returncode != 0
    assert "Disk quota exceeded" in full.stderr
    limited.ssh(CLIENT, write.format("bob"))
    assert limited.output(SERVER, "stat -c %s /homes/home/bob/data") == str(30 << 20)
    limited.ssh(CLIENT, "runuser -u alice -- rm /mnt/homes/home/alice/data")


def test_new_home_gets_the_default_and_manual_quota_is_kept(limited: Machines) -> None:
    run = "systemctl start busbar-home-quota.service; journalctl -u busbar-home-quota -n 20 -o cat"
    limited.ssh(SERVER, f"setquota -u {BY_HAND} 1000 2000 10 20 /homes; install -d -o {NEW} -m 700 /homes/home/new")
    said = limited.output(SERVER, run)
    assert f"{BY_HAND}: keeps 1 MiB, which was set manually" in said
    assert (limits(limited)[str(NEW)], limits(limited)[str(BY_HAND)]) == (("18432", "20480"), ("1000", "2000"))


def test_changed_default_applies_only_to_users_with_the_default(limited: Machines) -> None:
    done = provisioned(limited, home_quota_default="30M")
    assert done.returncode == 0, done.stdout + done.stderr
    found = limits(limited)
    assert (found["alice"][1], found["bob"][1], found[str(BY_HAND)][1]) == ("30720", "61440", "2000")
    limited.ssh(SERVER, "setquota -u alice 4000 8000 0 0 /homes")
    lifted = provisioned(limited, home_quota_default="none", home_quota_users={})
    assert lifted.returncode == 0, lifted.stdout + lifted.stderr
    found = limits(limited)
    assert (found["bob"], found.get(str(NEW), ("0", "0"))) == (("0", "0"), ("0", "0"))
    assert (found["alice"], found[str(BY_HAND)]) == (("4000", "8000"), ("1000", "2000"))


def test_disabled_role_is_removed_and_quotas_stay(limited: Machines) -> None:
    done = limited.provision("--limit", SERVER, "--tags", "nfs_server,home_quota", **OFF)
    assert done.returncode == 0, done.stdout + done.stderr
    left = limited.ssh(SERVER, "ls /etc/busbar/home_quota.json /usr/local/sbin/busbar-home-quota", check=False)
    assert left.stdout == ""
    assert limited.output(SERVER, "systemctl list-timers --all busbar-home-quota.timer --no-legend") == ""
    assert limits(limited)["alice"] == ("4000", "8000")
    again = limited.provision("--limit", SERVER, "--tags", "nfs_server,home_quota", **OFF)
    assert recap(again.stdout)[SERVER]["changed"] == 0, again.stdout


def test_homes_that_no_server_exports_are_refused_before_any_change(limited: Machines) -> None:
    refused = limited.provision(
        "--limit", SERVER, "--tags", "home_quota", **(GIVEN | {"users_home_base": "/elsewhere"})
    )
    assert refused.returncode == 2, refused.stdout
    assert "no host in the group nfs_server exports /elsewhere, which contains the homes" in refused.stdout
    assert recap(refused.stdout)[SERVER]["changed"] == 0
