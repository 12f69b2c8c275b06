"""Jobs under a kernel of their own, whose only cgroups are those of version 2: what they see, hold and leave."""

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
# Opens both devices and prints the error: ENXIO has no driver behind it, EPERM is confined.
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
    """Names, trust, homes and Slurm."""
    # Beside the group's own, whose hosts have further groups then; a run puts its lock where its inventory is.
    further = str(shutil.copy(HERE / "slurm_hosts.yml", machines.group.path))
    secrets = str(machines.group.path / "secrets")
    return machines.play(HERE / "slurm_site.yml", "-i", further, cluster_secrets_dir=secrets)


@pytest.fixture(scope="module")
def slurm(machines: Machines) -> Iterator[Machines]:
    """The machines with Slurm: the file server controls, the client has two GPUs."""
    devices = "".join(f"c /dev/nvidia{number} 0666 root root - 195:{number}\\n" for number in (0, 1))
    machines.ssh(CLIENT, f"printf '{devices}' >/etc/tmpfiles.d/gpus.conf && systemd-tmpfiles --create gpus.conf")
    done = provision(machines)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    yield machines
    machines.ssh(SERVER, CANCEL_ALL)


@pytest.fixture(autouse=True)
def _no_jobs(slurm: Machines) -> None:
    """Each test finds the node empty."""
    slurm.ssh(SERVER, CANCEL_ALL)
    wait_until(lambda: slurm.output(SERVER, "squeue -h") == "", "jobs are left", 120)
    wait_until(lambda: slurm.output(SERVER, f"sinfo -h -n {CLIENT} -o %T") == "idle", "the node is not idle", 120)


def as_user(machines: Machines, user: str, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command on the controller as a user."""
    return machines.ssh(SERVER, f"runuser -l {user} <<'EOF'\n{command}\nEOF", check=check, timeout=300)


def opened(text: str) -> dict[str, str]:
    """What OPEN_BOTH printed: device number to error."""
    return dict(line.split() for line in text.splitlines() if line[:1] in "01")


def holding(machines: Machines, user: str, options: str, command: str = "sleep 600") -> str:
    """Submit a job and wait until it runs; its number."""
    job = as_user(machines, user, f"cd /shared/home/{user} && sbatch --parsable {options} --wrap '{command}'").stdout
    job = job.strip()
    wait_until(lambda: machines.output(SERVER, f"squeue -h -j {job} -o %T") == "RUNNING", "the job waits", 120)
    return job


def test_the_kernel_has_cgroups_of_version_2_alone(slurm: Machines) -> None:
    assert slurm.output(CLIENT, "stat -f -c %T /sys/fs/cgroup") == "cgroup2fs"
    assert slurm.output(CLIENT, "grep -c ' cgroup ' /proc/self/mountinfo || true") == "0"


def test_a_second_run_changes_nothing(slurm: Machines) -> None:
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
def test_a_job_opens_the_gpus_that_it_asked_for(slurm: Machines, options: str, expected: list[str]) -> None:
    ran = as_user(slurm, "alice", f'cd /tmp && srun --quiet {options} python3 -c "{OPEN_BOTH}"')
    assert sorted(opened(ran.stdout).values()) == expected, ran.stdout + ran.stderr


def test_a_session_is_refused_without_a_job_and_has_the_gpus_of_its_job(slurm: Machines) -> None:
    look = f"ssh -o BatchMode=yes -o ConnectTimeout=60 {CLIENT} python3 - <<'END'\n{OPEN_BOTH}END"
    refused = as_user(slurm, "alice", look, check=False)
    assert refused.returncode == 255, refused.stdout + refused.stderr
    assert "Access denied by pam_slurm_adopt: you have no active jobs on this node" in refused.stderr
    holding(slurm, "alice", "--gres=gpu:1")
    inside = as_user(slurm, "alice", look)
    assert sorted(opened(inside.stdout).values()) == [OWN, CLOSED], inside.stdout + inside.stderr
    # The home is on the file server, and the way in does not depend on what is in it.
    assert slurm.output(CLIENT, "stat -f -c %T /shared/home/alice") == "nfs"
    assert slurm.output(CLIENT, "stat -c '%U %a' /shared/home/alice") == "alice 700"
    assert as_user(slurm, "bob", look, check=False).returncode == 255


def test_nothing_of_a_job_outlives_it(slurm: Machines) -> None:
    leave = "setsid --fork nohup sleep 4711 >/dev/null 2>&1; (setsid sleep 4711 &) ; sleep 600"
    job = holding(slurm, "alice", "", leave)
    count = "pgrep -u alice -fc '^sleep 4711$' || true"
    wait_until(lambda: slurm.output(CLIENT, count) == "2", "the processes did not start", 60)
    slurm.ssh(SERVER, f"scancel {job}")
    wait_until(lambda: slurm.output(SERVER, f"squeue -h -j {job} 2>/dev/null") == "", "the job does not end", 120)
    assert slurm.output(CLIENT, count) == "0"


def test_memory_beyond_the_job_ends_the_job_and_nothing_else(slurm: Machines) -> None:
    within = as_user(slurm, "alice", f'cd /tmp && srun --quiet --mem=200M python3 -c "{EAT_MB}" 60')
    assert within.stdout.strip() == "ate 60"
    beyond = as_user(slurm, "alice", f'cd /tmp && srun --mem=100M python3 -c "{EAT_MB}" 300', check=False)
    assert beyond.returncode != 0, beyond.stdout + beyond.stderr
    assert "oom" in beyond.stderr.lower().replace("out of memory", "oom"), beyond.stderr
    assert slurm.output(CLIENT, "systemctl is-active slurmd") == "active"


def test_limits_and_kernel_settings_are_in_force(slurm: Machines) -> None:
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
    """Have logind and polkit on the client, as most installations do."""
    packages = "libpam-systemd polkitd"
    slurm.ssh(CLIENT, f"apt-get install -y --no-install-recommends {packages}", timeout=600)
    yield
    slurm.ssh(CLIENT, f"apt-get purge -y --autoremove {packages}; systemctl reset-failed", timeout=600)


@pytest.mark.usefixtures("sessions")
def test_users_see_only_their_own_processes_and_keep_their_sessions(slurm: Machines) -> None:
    """Also after a boot, and with cgroups of version 2 alone, where older user managers had to read /proc/1."""
    # polkit is newer than the last run, which has it read /proc.
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
    # Each user could take a group of the manager from there.
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
