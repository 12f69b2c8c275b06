"""Tests of jobs on a separate kernel with only cgroup v2: access to devices, limits and cleanup."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from virtual_machines import CLIENT, SERVER, recap, wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from virtual_machines import Machines

pytestmark = pytest.mark.proves("slurm", "hosts")

HERE = Path(__file__).parent
# Opens both devices and prints the error: ENXIO: no driver behind it; EPERM: access denied.
OPEN_BOTH = (
    "import errno\n"
    "for number in (0, 1):\n"
    "    try:\n"
    "        open(f'/dev/nvidia{number}')\n"
    "    except OSError as exc:\n"
    "        print(number, errno.errorcode[exc.errno])\n"
)
OWN, CLOSED = "ENXIO", "EPERM"
CANCEL_ALL = "scancel --user=alice && scancel --user=bob"
EAT_MB = "import sys; eaten = bytearray(int(sys.argv[1]) << 20); print('ate', len(eaten) >> 20)"


def provision(machines: Machines) -> subprocess.CompletedProcess[str]:
    """Provision host names, SSH trust, homes and Slurm."""
    # A copy in the group's folder, because a run puts its lock next to its inventory.
    further = str(shutil.copy(HERE / "slurm_hosts.yml", machines.group.path))
    secrets = str(machines.group.path / "secrets")
    return machines.play(HERE / "slurm_site.yml", "-i", further, cluster_secrets_dir=secrets)


@pytest.fixture(scope="module")
def slurm(machines: Machines) -> Iterator[Machines]:
    """Return the machines with Slurm: the file server is the controller, the client has two GPUs."""
    devices = "".join(f"c /dev/nvidia{number} 0666 root root - 195:{number}\\n" for number in (0, 1))
    machines.ssh(CLIENT, f"printf '{devices}' >/etc/tmpfiles.d/gpus.conf && systemd-tmpfiles --create gpus.conf")
    done = provision(machines)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    yield machines
    machines.ssh(SERVER, CANCEL_ALL)


@pytest.fixture(autouse=True)
def _no_jobs(slurm: Machines) -> None:
    """Cancel all jobs and wait until the node is idle."""
    slurm.ssh(SERVER, CANCEL_ALL)
    wait_until(lambda: slurm.output(SERVER, "squeue -h") == "", "jobs are left", 120)
    wait_until(lambda: slurm.output(SERVER, f"sinfo -h -n {CLIENT} -o %T") == "idle", "the node is not idle", 120)


def as_user(machines: Machines, user: str, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command on the controller as a user."""
    return machines.ssh(SERVER, f"runuser -l {user} <<'EOF'\n{command}\nEOF", check=check, timeout=300)


def opened(text: str) -> dict[str, str]:
    """Return the output of OPEN_BOTH: device number to error."""
    return dict(line.split() for line in text.splitlines() if line[:1] in "01")


def holding(machines: Machines, user: str, options: str, command: str = "sleep 600") -> str:
    """Submit a job, wait until it runs, and return its ID."""
    job = as_user(machines, user, f"cd /shared/home/{user} && sbatch --parsable {options} --wrap '{command}'").stdout
    job = job.strip()
    wait_until(lambda: machines.output(SERVER, f"squeue -h -j {job} -o %T") == "RUNNING", "the job waits", 120)
    return job


def test_kernel_has_only_cgroup_v2(slurm: Machines) -> None:
    assert slurm.output(CLIENT, "stat -f -c %T /sys/fs/cgroup") == "cgroup2fs"
    assert slurm.output(CLIENT, "grep -c ' cgroup ' /proc/self/mountinfo || true") == "0"


def test_second_run_changes_nothing(slurm: Machines) -> None:
    done = provision(slurm)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert {host: counts["changed"] for host, counts in recap(done.stdout).items()} == {SERVER: 0, CLIENT: 0}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--gres=gpu:1", [OWN, CLOSED]),
        ("--gres=gpu:2", [OWN, OWN]),
        ("", [CLOSED, CLOSED]),
    ],
    ids=["one", "both", "none"],
)
def test_job_opens_only_the_requested_gpus(slurm: Machines, options: str, expected: list[str]) -> None:
    ran = as_user(slurm, "alice", f'cd /tmp && srun --quiet {options} python3 -c "{OPEN_BOTH}"')
    assert sorted(opened(ran.stdout).values()) == expected, ran.stdout + ran.stderr


def test_session_requires_a_job_and_has_the_gpus_of_its_job(slurm: Machines) -> None:
    look = f"ssh -o BatchMode=yes -o ConnectTimeout=60 {CLIENT} python3 - <<'END'\n{OPEN_BOTH}END"
    refused = as_user(slurm, "alice", look, check=False)
    assert refused.returncode == 255, refused.stdout + refused.stderr
    assert "Access denied by pam_slurm_adopt: you have no active jobs on this node" in refused.stderr
    holding(slurm, "alice", "--gres=gpu:1")
    inside = as_user(slurm, "alice", look)
    assert sorted(opened(inside.stdout).values()) == [OWN, CLOSED], inside.stdout + inside.stderr
    # The home is on the file server, and the login does not depend on its contents.
    assert slurm.output(CLIENT, "stat -f -c %T /shared/home/alice") == "nfs"
    assert slurm.output(CLIENT, "stat -c '%U %a' /shared/home/alice") == "alice 700"
    assert as_user(slurm, "bob", look, check=False).returncode == 255


def test_no_process_outlives_its_job(slurm: Machines) -> None:
    leave = "setsid --fork nohup sleep 4711 >/dev/null 2>&1; (setsid sleep 4711 &) ; sleep 600"
    job = holding(slurm, "alice", "", leave)
    count = "pgrep -u alice -fc '^sleep 4711$' || true"
    wait_until(lambda: slurm.output(CLIENT, count) == "2", "the processes did not start", 60)
    slurm.ssh(SERVER, f"scancel {job}")
    wait_until(lambda: slurm.output(SERVER, f"squeue -h -j {job} 2>/dev/null") == "", "the job does not end", 120)
    assert slurm.output(CLIENT, count) == "0"


def test_memory_beyond_the_allocation_kills_only_the_job(slurm: Machines) -> None:
    within = as_user(slurm, "alice", f'cd /tmp && srun --quiet --mem=200M python3 -c "{EAT_MB}" 60')
    assert within.stdout.strip() == "ate 60"
    beyond = as_user(slurm, "alice", f'cd /tmp && srun --mem=100M python3 -c "{EAT_MB}" 300', check=False)
    assert beyond.returncode != 0, beyond.stdout + beyond.stderr
    assert "oom" in beyond.stderr.lower().replace("out of memory", "oom"), beyond.stderr
    assert slurm.output(CLIENT, "systemctl is-active slurmd") == "active"


def test_limits_and_sysctl_settings_are_active(slurm: Machines) -> None:
    settings = "sysctl -n net.core.somaxconn vm.max_map_count net.ipv4.neigh.default.gc_thresh3"
    assert slurm.output(CLIENT, settings).split() == ["4096", "1048576", "65536"]
    assert slurm.output(CLIENT, "runuser -l alice -c 'ulimit -l; ulimit -Sn; ulimit -Hn'").split() == [
        "unlimited",
        "65536",
        "1048576",
    ]
    in_job = as_user(slurm, "alice", "cd /tmp && srun --quiet sh -c 'ulimit -l'")
    assert in_job.stdout.strip() == "unlimited"


@pytest.fixture
def sessions(slurm: Machines) -> Iterator[None]:
    """Install logind and polkit on the client, as on most hosts."""
    packages = "libpam-systemd polkitd"
    slurm.ssh(CLIENT, f"apt-get install -y --no-install-recommends {packages}", timeout=600)
    yield
    slurm.ssh(CLIENT, f"apt-get purge -y --autoremove {packages}; systemctl reset-failed", timeout=600)


@pytest.mark.usefixtures("sessions")
def test_users_see_only_their_own_processes_and_keep_their_sessions(slurm: Machines) -> None:
    """Also after a boot, and with only cgroup v2, where older user managers had to read /proc/1."""
    # polkit was installed after the last run, which lets it read /proc.
    done = provision(slurm)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    slurm.reboot(CLIENT)
    wait_until(lambda: slurm.output(SERVER, f"sinfo -h -n {CLIENT} -o %T") == "idle", "the node is not idle", 240)
    assert "hidepid=invisible" in slurm.output(CLIENT, "findmnt -n -o FS-OPTIONS /proc")
    job = holding(slurm, "bob", "")
    seen = "ps -eo user= | sort -u"
    assert "bob" in slurm.output(CLIENT, seen).split()
    assert slurm.output(CLIENT, f"runuser -l alice -c '{seen}'") == "alice"
    session = "loginctl show-session -p Name --value $XDG_SESSION_ID; systemctl --user is-system-running"
    assert slurm.output(CLIENT, f"runuser -l alice <<'EOF'\n{session}\nEOF").split() == ["alice", "running"]
    # Each user could inherit a group of the user manager.
    groups = "grep ^Groups: /proc/$(pgrep -u alice -x systemd)/status; getent group busbar-proc | cut -d: -f3"
    found = slurm.output(
        CLIENT, f"loginctl enable-linger alice; sleep 2; {groups}; loginctl disable-linger alice"
    ).split()
    assert found[-1] not in found[1:-1]
    asked = "pkcheck --action-id org.freedesktop.systemd1.manage-units --process $$"
    assert "requires authentication" in slurm.ssh(CLIENT, f"runuser -l alice -c '{asked}'", check=False).stderr
    processes = "busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager"
    processes += " GetUnitProcesses s system.slice"
    assert "sleep 600" in slurm.output(CLIENT, processes)
    assert "Access denied" in slurm.ssh(CLIENT, f"runuser -l alice -c '{processes}'", check=False).stderr
    assert slurm.ssh(CLIENT, "nhc", check=False).returncode == 0
    slurm.ssh(SERVER, f"scancel {job}")
