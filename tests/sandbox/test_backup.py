"""Tests of backups: creation, verification, refusal; a lost controller is restored with queue, jobs and accounting."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from conftest import as_json, plain_environment, recap
from test_slurm_jobs import job_state, submit, wait_for_state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

# The login node stores the snapshots, and ctl reaches it by SSH.
pytestmark = [pytest.mark.proves("backup"), pytest.mark.needs("ssh")]

KEEPER = "login"
REPOSITORY = "/var/backups/busbar/repository"
METRICS = "/var/lib/prometheus/node-exporter/busbar_backup.prom"
INVOCATIONS = "systemctl show -p InvocationID --value slurmctld slurmdbd mariadb"
STAGE = "/var/lib/busbar-backup/stage"
OTHER_STATE = f"head -c 5 {STAGE}/slurm_state/job_state >/root/x; mv /root/x {STAGE}/slurm_state/job_state"
# Damaged snapshots: with wrong metadata, and incomplete ones; created with the commands of the program.
CHANGED = {
    'sed -i \'s/^ "cluster": .*/ "cluster": "elsewhere",/\' manifest.json': "from another cluster",
    'sed -i \'s/^ "slurm_version": .*/ "slurm_version": "99.05.1",/\' manifest.json': "Slurm 99.05.1 wrote the state",
    "rm accounting.sql": "accounting.sql is missing",
    "rm accounting.sql; sed -i '/accounting.sql/d; /^ \"tables\"/,/^ }/d' manifest.json": "does not contain accounting",
    'sed -i \'s/^  "acct_table": .*/  "acct_table": 4321,/\' manifest.json': "instead of 4321",
    OTHER_STATE: "the checksum of slurm_state/job_state differs",
    f"{OTHER_STATE}; sed -i '/state.job_state\"/d' manifest.json": "job_state is not slurmctld state",
}
ROLE = ("--tags", "backup", "--skip-tags", "always")


def provision(sandbox: Cluster, playbook: str, *options: str) -> subprocess.CompletedProcess[str]:
    return sandbox.busbar("provision", playbook, "-i", str(sandbox.inventory), *options, timeout=1500)


def refused(sandbox: Cluster, said: str, *options: str) -> None:
    """Check that a restore is refused before any daemon is changed."""
    started = sandbox.exec("ctl", INVOCATIONS).stdout
    done = provision(sandbox, "restore", *options)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in " ".join(done.stdout.split()), done.stdout
    assert sandbox.exec("ctl", INVOCATIONS).stdout == started


def verified(sandbox: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    return sandbox.busbar("backup", "verify", "-i", str(sandbox.inventory), *words)


def metric(sandbox: Cluster, name: str) -> float:
    shown = sandbox.exec("ctl", f"cat {METRICS}").stdout
    found = re.search(rf"^busbar_backup_{name} (\S+)$", shown, re.MULTILINE)
    assert found, shown
    return float(found[1])


@pytest.fixture(scope="module")
def backed_up(sandbox: Cluster) -> Iterator[str]:
    """Back up to the login node and return the output of the first run; all backups are removed at the end."""
    options = sandbox.inventory / "group_vars" / "all" / "backup.yml"
    options.write_text(f"backup_enabled: true\nbackup_host: {KEEPER}\nbackup_site_folder: false\n")
    sandbox.exec("ctl", "mkdir -p /var/lib/prometheus/node-exporter")
    # slurmctld saves its queue with the first job, and a Molecule scenario may have run none.
    sandbox.exec("ctl", "srun --time=1 true")
    saved = "test -f /var/lib/slurm/slurmctld/job_state"
    sandbox.wait_until(
        lambda: sandbox.exec("ctl", saved, check=False).returncode == 0, "slurmctld does not save its queue"
    )
    done = provision(sandbox, "backup", "-e", "backup_verify=true")
    assert done.returncode == 0, done.stdout + done.stderr
    yield done.stdout
    options.unlink()
    done = provision(sandbox, "backup")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sandbox.exec("ctl", "systemctl is-enabled busbar-backup.timer", check=False).stdout.strip() != "enabled"


@pytest.mark.scenario
def test_snapshot_is_created_and_verified(sandbox: Cluster, backed_up: str) -> None:
    said = re.search(
        r"ctl: snapshot (\w{8}) in \S+, (\d+) files, (\d+) rows of accounting, .* restored and compared", backed_up
    )
    assert said, backed_up
    # The dump, the manifest and the state of a slurmctld that has run one job.
    assert int(said[2]) >= 5
    assert int(said[3]) > 10
    assert said[1] in sandbox.exec("ctl", "busbar-backup list").stdout
    assert metric(sandbox, "last_run_failed") == 0
    assert abs(time.time() - metric(sandbox, "last_success_timestamp_seconds")) < 900
    assert "busbar-backup.timer" in sandbox.exec("ctl", "systemctl list-timers busbar-backup.timer").stdout
    # Neither copies nor a second database server are left.
    assert sandbox.exec("ctl", "ls /var/lib/busbar-backup").stdout.split() == [
        "cache",
        "last.json",
        "lock",
        "repository",
    ]
    assert sandbox.exec("ctl", "ls -d /var/lib/busbar-verify-* 2>/dev/null | wc -l").stdout.strip() == "0"


@pytest.mark.usefixtures("backed_up")
def test_second_run_changes_nothing(sandbox: Cluster) -> None:
    done = sandbox.playbook("site.yml", *ROLE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {host: counts["changed"] for host, counts in recap(done.stdout).items() if counts["changed"]} == {}
    done = sandbox.playbook("site.yml", *ROLE, "--check", "--diff", "-e", "backup_max_age=30")
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"max_age_s": 108000' in done.stdout
    assert sandbox.exec("ctl", "grep -c 108000 /etc/busbar/backup/backup.json", check=False).stdout.strip() == "0"


@pytest.mark.usefixtures("backed_up")
def test_users_cannot_read_backups_and_backup_account_has_no_shell(sandbox: Cluster) -> None:
    for node, path in [("ctl", "/etc/busbar/backup/password"), ("ctl", "/etc/busbar/backup/ssh_key")]:
        assert sandbox.exec(node, f"runuser -u alice -- cat {path}", check=False).returncode != 0
    assert sandbox.exec(KEEPER, f"runuser -u alice -- ls {REPOSITORY}", check=False).returncode != 0
    command = (
        "ssh -F none -o BatchMode=yes -o HostKeyAlias=login -o GlobalKnownHostsFile=/etc/busbar/backup/known_hosts "
    )
    command += f"-i /etc/busbar/backup/ssh_key busbar-backup@{KEEPER} touch {REPOSITORY}/shell"
    assert sandbox.exec("ctl", command, check=False).returncode != 0
    assert sandbox.exec(KEEPER, f"ls {REPOSITORY}/shell", check=False).returncode != 0
    key = "/etc/ssh/authorized_keys.d/busbar-backup"
    assert sandbox.exec(KEEPER, f"runuser -u busbar-backup -- tee -a {key} </dev/null", check=False).returncode != 0
    assert (
        sandbox.exec(KEEPER, "runuser -u busbar-backup -- mkdir /var/backups/busbar/.ssh", check=False).returncode != 0
    )


@pytest.mark.usefixtures("backed_up")
def test_unreachable_backup_host_is_reported_and_backup_is_made_later(sandbox: Cluster) -> None:
    before = metric(sandbox, "last_success_timestamp_seconds")
    sandbox.exec(KEEPER, f"mv {REPOSITORY}/config /root/config")
    try:
        assert sandbox.exec("ctl", "systemctl start busbar-backup", check=False, timeout=120).returncode != 0
        said = sandbox.exec("ctl", "journalctl -u busbar-backup -n 20 -o cat").stdout
        assert "check that it is mounted and its host is up. Nothing was created" in said
        done = provision(sandbox, "backup")
        assert done.returncode == 1, done.stdout
        assert "ctl: " in done.stdout
        assert "backup_new_repository=true" in done.stdout
    finally:
        sandbox.exec(KEEPER, f"mv /root/config {REPOSITORY}/config")
    assert metric(sandbox, "last_run_failed") == 1
    assert metric(sandbox, "last_success_timestamp_seconds") == before
    sandbox.exec("ctl", "systemctl start busbar-backup", timeout=120)
    assert metric(sandbox, "last_run_failed") == 0
    assert metric(sandbox, "last_success_timestamp_seconds") > before


def test_invalid_option_is_refused_before_any_change(sandbox: Cluster) -> None:
    done = provision(sandbox, "preflight", "-e", "backup_enabled=true", "-e", "backup_host=logn")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "ctl: backup_host: 'logn' is not in the inventory" in done.stdout
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())


@pytest.mark.usefixtures("backed_up")
def test_schedule_that_systemd_rejects_is_refused_and_the_timer_runs(sandbox: Cluster) -> None:
    done = provision(sandbox, "backup", "-e", "backup_schedule=25:00")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "ctl: backup_schedule: 25:00 is not a valid calendar event of systemd" in done.stdout
    assert sandbox.exec("ctl", "systemctl is-active busbar-backup.timer").stdout == "active\n"


@pytest.mark.usefixtures("backed_up")
def test_running_cluster_is_not_overwritten(sandbox: Cluster) -> None:
    refused(sandbox, "ctl: restore_replace: the restore would replace a Slurm queue in /var/lib/slurm/slurmctld and")
    refused(sandbox, "no snapshot 'abcdef' of ctl", "-e", "restore_snapshot=abcdef")


@pytest.mark.usefixtures("backed_up")
def test_damaged_snapshot_is_refused(sandbox: Cluster) -> None:
    largest = f"find {REPOSITORY}/data -type f -printf '%s %p\\n' | sort -n | tail -1 | cut -d' ' -f2"
    pack = sandbox.exec(KEEPER, largest).stdout.strip()
    sandbox.exec(
        KEEPER,
        f"cp -p {pack} /root/pack && chmod u+w {pack} && printf 'damage' | dd of={pack} bs=1 seek=99 conv=notrunc",
    )
    try:
        refused(sandbox, "cannot be read completely. Nothing was changed", "-e", "restore_replace=true")
        assert sandbox.exec("ctl", "busbar-backup verify", check=False, timeout=120).returncode != 0
    finally:
        sandbox.exec(KEEPER, f"cp -p /root/pack {pack} && rm /root/pack")
    sandbox.exec("ctl", "busbar-backup verify", timeout=120)


@pytest.mark.usefixtures("backed_up")
def test_verify_counts_rows_and_leaves_daemons_unchanged(sandbox: Cluster) -> None:
    started = sandbox.exec("ctl", INVOCATIONS).stdout
    sandbox.exec("ctl", "systemctl start busbar-backup", timeout=120)
    done = verified(sandbox)
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.search(
        r"ctl: snapshot (\w{8}) from \S+ \S+ UTC, Slurm \d\S+: (\d+) files, (\d+) rows of (\d+) tables as saved "
        r"\(slurm_state, accounting\)",
        done.stdout,
    )
    assert said, done.stdout
    assert min(map(int, said.groups()[1:])) > 10
    assert "no snapshot contains the secrets" in " ".join(done.stdout.split())
    assert sandbox.exec("ctl", INVOCATIONS).stdout == started
    assert sandbox.exec("ctl", "ls -d /var/lib/busbar-verify-* /var/lib/busbar-backup/verify", check=False).stdout == ""

    chosen = verified(sandbox, said[1], "--json")
    assert chosen.returncode == 0, chosen.stdout + chosen.stderr
    assert as_json(chosen.stdout)["proven"]["ctl"]["rows"] == int(said[3])
    done = verified(sandbox, "abcdef01")
    assert done.returncode == 1, done.stdout
    assert "no snapshot 'abcdef01' of ctl" in " ".join(done.stdout.split())


@pytest.mark.usefixtures("backed_up")
def test_site_folder_is_saved_verified_and_restored(sandbox: Cluster, tmp_path: Path) -> None:
    if not shutil.which("restic"):
        pytest.skip("this host has no restic: scripts/setup --test")
    site = ("-e", "backup_site_folder=true")
    secrets = sandbox.state / "secrets"
    changed, added = secrets / "changed.later", secrets / "added.later"
    changed.write_text("as it was saved\n")
    try:
        done = provision(sandbox, "backup", *site)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "backup.password, backup_site.password, backup.key" in " ".join(done.stdout.split())
        done = verified(sandbox, *site)
        assert (done.returncode, "folder" in done.stdout) == (0, False), done.stdout + done.stderr
        saved = {path.name: path.read_bytes() for path in secrets.iterdir() if path.is_file()}

        changed.write_text("another one\n")
        added.write_text("new\n")
        done = verified(sandbox, *site)
        said = " ".join(done.stdout.split())
        assert done.returncode == 1, said
        assert "secrets/changed.later differs from the snapshot of the site folder" in said
        assert "secrets/added.later is not in the snapshot of the site folder" in said
    finally:
        changed.unlink()
        added.unlink(missing_ok=True)
    _fetch_site(sandbox, tmp_path)
    fetched = tmp_path / secrets.relative_to("/")
    found = {path.name: path.read_bytes() for path in fetched.iterdir() if path.is_file()}
    # Locks and known_hosts files change all the time.
    for names in (saved, found):
        for name in [name for name in names if name.endswith(".lock") or name.startswith("known_hosts")]:
            names.pop(name)
    assert found == saved
    assert {path.stat().st_mode & 0o077 for path in fetched.rglob("*.password")} == {0}
    hosts = sandbox.inventory.relative_to("/") / "hosts.yml"
    assert (tmp_path / hosts).read_bytes() == (sandbox.inventory / "hosts.yml").read_bytes()


def _fetch_site(sandbox: Cluster, target: Path) -> None:
    """Restore the site folder with the three files that are stored elsewhere, as described in docs/backup.md."""
    secrets = sandbox.state / "secrets"
    keeper = f"busbar-backup@{sandbox.exec(KEEPER, 'hostname -I').stdout.split()[0]}"
    # A new provisioning host does not know the backup host, and the admin accepts its key.
    first = f"-F none -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile={target / 'keeper'}"
    done = subprocess.run(
        [
            *("restic", "--repo", f"sftp:{keeper}:/var/backups/busbar/site"),
            *("--option", f"sftp.command=ssh {first} -i '{secrets / 'backup.key'}' {keeper} -s sftp"),
            *("restore", "latest", "--target", str(target)),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=plain_environment() | {"RESTIC_PASSWORD_FILE": str(secrets / "backup_site.password")},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("backed_up")
def test_unrestorable_snapshot_is_reported(sandbox: Cluster) -> None:
    settings = as_json(sandbox.exec("ctl", "cat /etc/busbar/backup/backup.json").stdout)
    restic = "busbar-restic --quiet"
    # Only existing paths, because verification would otherwise already fail for a missing one.
    there = sandbox.exec("ctl", f"ls -d {' '.join(settings['configurations'])} 2>/dev/null", check=False).stdout.split()
    paths = [STAGE, *there]
    ids = "import json, sys; print(*[each['id'] for each in json.load(sys.stdin)])"
    forget = f'{restic} snapshots --json --tag changed | python3 -c "{ids}" | xargs -r {restic} forget'
    try:
        for change, said in CHANGED.items():
            _save_changed(sandbox, restic, change, paths)
            done = sandbox.exec("ctl", "busbar-backup verify", check=False, timeout=120)
            assert done.returncode == 1, done.stdout
            assert said in done.stderr, done.stderr
            sandbox.exec("ctl", forget)
        _save_changed(sandbox, restic, "true", paths[:1])
        done = verified(sandbox)
        assert done.returncode == 1, done.stdout
        assert re.search(r"does not contain /etc/slurm, /etc/mysql", " ".join(done.stdout.split())), done.stdout
    finally:
        sandbox.exec("ctl", f"{forget}; rm -rf {STAGE}", check=False)
    assert sandbox.exec("ctl", "busbar-backup verify", timeout=120).stdout


def _save_changed(sandbox: Cluster, restic: str, change: str, paths: list[str]) -> None:
    """Save the newest snapshot again with a change."""
    sandbox.exec(
        "ctl",
        f"set -e; {restic} restore latest --host ctl --target / --include {STAGE}; cd {STAGE}; {change}; "
        f"{restic} backup --host ctl --tag busbar --tag changed {' '.join(paths)}; rm -rf {STAGE}",
        timeout=120,
    )


@pytest.mark.usefixtures("backed_up")
def test_lost_controller_is_restored(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    ended = submit(sandbox, "-n1 --mem=64 -o /dev/null", "true")
    wait_for_state(sandbox, ended, "COMPLETED")
    output = f"/shared/home/alice/restored-{sandbox.name}"
    running = submit(sandbox, f"-w gpu1 --mem=64 -o {output}", "for s in $(seq 900); do echo $s; sleep 1; done")
    waiting = submit(sandbox, "-w gpu1 --exclusive -o /dev/null", "true")
    wait_for_state(sandbox, running, "RUNNING")
    key = sandbox.exec("ctl", "cat /etc/ssh/ssh_host_ed25519_key.pub").stdout
    users = sandbox.exec("ctl", "sacctmgr -nP show assoc format=cluster,account,user,qos | sort").stdout
    try:
        done = provision(sandbox, "backup")
        assert done.returncode == 0, done.stdout + done.stderr
        subprocess.run(
            ["podman", "rm", "--force", "--time=0", sandbox.container("ctl")], check=True, capture_output=True
        )
        up = sandbox.busbar("sandbox", "up", "--name", sandbox.name)
        assert up.returncode == 0, up.stdout + up.stderr
        sandbox.wait_for_new_machine("ctl")
        assert sandbox.exec("ctl", "cat /etc/ssh/ssh_host_ed25519_key.pub").stdout != key
        done = provision(sandbox, "restore")
        assert done.returncode == 0, done.stdout + done.stderr
        sandbox.wait_until(
            lambda: job_state(sandbox, running) == "RUNNING", f"{running}: {job_state(sandbox, running)}"
        )
        assert job_state(sandbox, waiting) == "PENDING"
        assert sandbox.exec("ctl", "sacctmgr -nP show assoc format=cluster,account,user,qos | sort").stdout == users
        wait_for_state(sandbox, ended, "COMPLETED")
        # No temporary files are left, and the next restore starts again.
        assert not sandbox.exec("ctl", "ls -d /var/lib/busbar-backup/restored*", check=False).stdout
        counted = [int(line) for line in sandbox.exec("login", f"cat {output}").stdout.split()]
        assert counted == list(range(1, len(counted) + 1))
        fresh = submit(sandbox, "-w gpu2 --mem=64 -o /dev/null", "true")
        assert int(fresh) > int(waiting)
        wait_for_state(sandbox, fresh, "COMPLETED")
    finally:
        sandbox.exec("login", f"scancel {running}", user="alice", check=False)
    wait_for_state(sandbox, running, "CANCELLED")
    wait_for_state(sandbox, waiting, "COMPLETED")
    sandbox.wait_idle()
