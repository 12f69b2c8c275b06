"""Tests of the health check: Slurm drains an unhealthy node without ending its job, and resumes the healed node."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from busbar.sandbox.recording import gpu_recording
from conftest import recap
from fault_results import note
from test_slurm_jobs import submit, wait_for_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("node_health")

NODE, OTHER = "gpu1", "gpu2"
FOLDER = "/usr/local/lib/busbar"
PROGRAM = f"{FOLDER}/node_health"
KEPT = "/var/lib/busbar/node_health"
METRICS = "/run/busbar-test-metrics"
RECORDING = "/etc/simulated-gpus.xml"
SOUND, LOST_MEMORY = "<total>1024 MiB</total>", "<total>GPU is lost</total>"
PENDING = "<remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows>"
FULL = gpu_recording(NODE, 2)
LOST = LOST_MEMORY.join(FULL.rsplit(SOUND, 1))
LABEL = f"ffff:02:00.0, serial simulated-{NODE}-1"
LOST_REASON = f"busbar health: GPU 1 ({LABEL}) is lost: the driver cannot reach it"
# Checks that may report problems on a machine shared by many tests.
SETTINGS = {"severities": dict.fromkeys(("stray_processes", "swap", "clock"), "OFF"), "metrics": METRICS}
XID = "NVRM: Xid (PCI:0000:23:00): 79, pid=1122, GPU has fallen off the bus."
XID_REASON = "GPU 0000:23:00: Xid 79 (pid=1122, GPU has fallen off the bus.)"
SPOOL = "/var/lib/slurm/slurmd"
# A network interface with a hardware device, as in sysfs; containers have none.
CARD = "/run/net/sim0"
SHOW_CARD = (
    f"mkdir -p {CARD}/device; ln -s /sys/devices/virtual/net/* /run/net/ 2>/dev/null"
    f"; echo up >{CARD}/operstate; echo 0 >{CARD}/carrier_down_count; mount --bind /run/net /sys/class/net"
)
# An overlay file system with the existing files and little free space.
SMALL_SPOOL = (
    "mkdir /run/small && mount -t tmpfs -o size=4m tmpfs /run/small && mkdir /run/small/up /run/small/work"
    f" && mount -t overlay overlay -o lowerdir={SPOOL},upperdir=/run/small/up,workdir=/run/small/work {SPOOL}"
    f"; head -c 10M /dev/zero >{SPOOL}/full 2>/dev/null; true"
)
# Maximum time from the fault to the drain.
MOST_S = 300
SHUT_DOWN = "XFS (nvme0n1p1): Corruption of in-memory data detected.  Shutting down filesystem"
UNIT = "[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n"


def program(name: str, text: str) -> str:
    """Return the command that atomically installs a program that overrides the system's own."""
    return (
        f"printf '{text}' > /usr/local/sbin/{name}.new && chmod +x /usr/local/sbin/{name}.new"
        f" && mv /usr/local/sbin/{name}.new /usr/local/sbin/{name}"
    )


def recording(text: str) -> str:
    """Return the command that atomically replaces the recording of the node's nvidia-smi."""
    return f"cat > {RECORDING}.new <<'END'\n{text}END\nmv {RECORDING}.new {RECORDING}"


# Additional settings of the node, the command that injects the fault, the one that heals it, and the drain reason.
FAULTS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "a lost GPU": ({}, recording(LOST), recording(FULL), LOST_REASON),
    "a missing GPU": ({}, recording(gpu_recording(NODE, 1)), recording(FULL), "GPUs: 2 declared, 1 found"),
    "a row to be remapped": (
        {},
        recording(f"{PENDING}<ecc_mode>".join(FULL.rsplit("<ecc_mode>", 1))),
        *(recording(FULL), f"GPU 1 ({LABEL}) a memory row is pending remapping"),
    ),
    "an uncorrectable ECC error": (
        {},
        recording("<volatile><dram_uncorrectable>3<".join(FULL.rsplit("<volatile><dram_uncorrectable>0<", 1))),
        *(recording(FULL), f"GPU 1 ({LABEL}) 3 uncorrectable ECC errors since the driver was loaded"),
    ),
    "a GPU that has not joined its fabric": (
        {},
        recording("<fabric><state>In Progress</state>".join(FULL.rsplit("<fabric><state>N/A</state>", 1))),
        *(recording(FULL), f"GPU 1 ({LABEL}) has not joined the NVLink fabric (state In Progress)"),
    ),
    "a device file that is gone": (
        {},
        *("mv /dev/nvidia1 /dev/nvidia1.gone", "mv /dev/nvidia1.gone /dev/nvidia1", "missing: /dev/nvidia1"),
    ),
    "a link that flaps": (
        {},
        f"echo 3 >{CARD}/carrier_down_count",
        *("umount /sys/class/net", "link sim0 went down 3 times in 3 h"),
    ),
    "a file system that the kernel shut down": (
        {},
        program("journalctl", f'#!/bin/sh\\necho "{SHUT_DOWN}"\\n'),
        f"rm /usr/local/sbin/journalctl; sleep 4; scontrol update NodeName={NODE} State=RESUME",
        "the kernel shut down the file system of nvme0n1p1",
    ),
    "slurmd's spool that is full": (
        {"paths": ["/", SPOOL], "free_mb": 2},
        *(SMALL_SPOOL, f"umount -l {SPOOL}; umount -l /run/small; rmdir /run/small", f"{SPOOL} is full: "),
    ),
    "an nvidia-smi that hangs": (
        {"timeout_s": 1},
        program("nvidia-smi", "#!/bin/sh\\nexec sleep 60\\n"),
        *("rm /usr/local/sbin/nvidia-smi", "nvidia-smi: fails: nvidia-smi did not answer in 1 s"),
    ),
    "a service that ended": (
        {"services": ["munge", "slurmd", "busbar-test"]},
        *("systemctl stop busbar-test", "systemctl start busbar-test", "busbar-test does not run (inactive)"),
    ),
    "a mount that is gone": (
        {"mounts": ["/mnt/shared"]},
        *("umount /mnt/shared", "mount -t tmpfs tmpfs /mnt/shared", "/mnt/shared is not mounted"),
    ),
    "a read-only file system": (
        {"mounts": ["/mnt/shared"]},
        *("mount -o remount,ro /mnt/shared", "mount -o remount,rw /mnt/shared", "/mnt/shared is read-only"),
    ),
    "a full file system": (
        {"paths": ["/", "/mnt/shared"], "free_mb": 2},
        *("head -c 15500k /dev/zero > /mnt/shared/big", "rm /mnt/shared/big", "/mnt/shared is full: "),
    ),
}


def reason(sandbox: Cluster, node: str = NODE) -> str:
    """Return the drain reason of the node, with user and time."""
    shown = sandbox.exec("ctl", f"scontrol show node {node}").stdout
    return next((line.strip() for line in shown.splitlines() if line.strip().startswith("Reason=")), "")


def drained(sandbox: Cluster, why: str) -> None:
    """Wait until the health check has drained the node for this reason."""

    def is_drained() -> bool:
        told = reason(sandbox)
        return told.startswith("Reason=busbar health: ") and why in told

    sandbox.wait_until(is_drained, f"not drained for {why!r}: {reason(sandbox)}", MOST_S)


def have_controller(sandbox: Cluster, *options: str) -> None:
    """Apply the site's options to the controller."""
    done = sandbox.playbook("slurm.yml", "--limit", "ctl", "--tags", "slurm_controller", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert recap(done.stdout)["ctl"]["changed"] > 0


@pytest.fixture(scope="module", autouse=True)
def watched(sandbox: Cluster) -> Iterator[None]:
    """Make Slurm run the health check every three seconds."""
    have_controller(sandbox, "-e", "node_health_interval=3")
    yield
    have_controller(sandbox)
    sandbox.wait_idle()


@pytest.fixture
def settings(sandbox: Cluster) -> Iterator[Callable[..., None]]:
    """Return a function that changes the check's settings; everything is restored after the test."""
    former = sandbox.exec(NODE, f"cat {PROGRAM}.json").stdout

    def change(**changes: object) -> None:
        declared: dict[str, Any] = json.loads(former) | SETTINGS | changes
        sandbox.exec(NODE, f"cat > {PROGRAM}.json.new <<'END'\n{json.dumps(declared)}\nEND\n")
        sandbox.exec(NODE, f"mv {PROGRAM}.json.new {PROGRAM}.json")

    sandbox.exec(NODE, f"cp -p {RECORDING} {RECORDING}.sound; cp -p {PROGRAM}.json {PROGRAM}.json.former")
    sandbox.exec(NODE, SHOW_CARD)
    sandbox.exec(NODE, f"mkdir -p {METRICS} /mnt/shared && mount -t tmpfs -o size=16m tmpfs /mnt/shared")
    sandbox.exec(
        NODE, f"printf '{UNIT}' > /etc/systemd/system/busbar-test.service && systemctl enable --now busbar-test"
    )
    change()
    yield change
    sandbox.exec(NODE, f"mv {RECORDING}.sound {RECORDING}; rm -f /usr/local/sbin/nvidia-smi /usr/local/sbin/journalctl")
    sandbox.exec(NODE, f"mv {PROGRAM}.json.former {PROGRAM}.json; rm -rf {METRICS}")
    sandbox.exec(NODE, "umount -l /mnt/shared", check=False)
    sandbox.exec(NODE, "umount -l /sys/class/net; rm -rf /run/net", check=False)
    sandbox.exec(NODE, "systemctl disable --now busbar-test; rm /etc/systemd/system/busbar-test.service")
    # A check that started earlier would drain the node again; on a busy machine a later one always follows.
    began = looks(sandbox)
    sandbox.wait_until(lambda: not began & looks(sandbox), "looks do not end", 120)
    sandbox.exec(NODE, f"rm -f {KEPT}/*")
    sandbox.exec("ctl", f"scontrol update NodeName={NODE} State=RESUME", check=False)
    sandbox.wait_idle()


def looks(sandbox: Cluster) -> set[str]:
    """Return the process IDs of the running health checks."""
    return {*sandbox.exec(NODE, f"pgrep -f {PROGRAM}$", check=False).stdout.split()}


@pytest.fixture
def job(sandbox: Cluster, settings: Callable[..., None]) -> Iterator[str]:  # noqa: ARG001 - must exist before the job
    """Run a user's job on the node during the test; it must not be interrupted."""
    sandbox.wait_idle()
    number = submit(sandbox, f"-w {NODE} --mem=100 -o /dev/null", "sleep 600")
    try:
        wait_for_state(sandbox, number, "RUNNING")
        yield number
        wait_for_state(sandbox, number, "RUNNING")
    finally:
        sandbox.exec("login", f"scancel {number}", user="alice")


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_drains_the_node_while_the_job_continues(
    sandbox: Cluster, settings: Callable[..., None], job: str, fault: str
) -> None:
    declared, broken, healed, why = FAULTS[fault]
    settings(**declared)
    # Counters that are compared between two checks need a first check.
    known = f"grep -q link_down {KEPT}/*"
    sandbox.wait_until(lambda: sandbox.exec(NODE, known, check=False).returncode == 0, "no look was made")
    began = time.monotonic()
    sandbox.exec(NODE, broken)
    drained(sandbox, why)
    seconds = time.monotonic() - began
    assert seconds < MOST_S
    assert sandbox.node_states() == dict.fromkeys(sandbox.node_states(), "idle") | {NODE: "drng"}
    shown = sandbox.exec(NODE, "nhc", check=False)
    assert (shown.returncode, why.removeprefix("busbar health: ") in shown.stdout) == (1, True), shown.stdout
    sandbox.exec(NODE, healed)
    sandbox.wait_until(lambda: sandbox.node_states()[NODE] == "mix", f"not resumed: {sandbox.node_states()}")
    assert reason(sandbox) == ""
    wait_for_state(sandbox, job, "RUNNING")
    note("drains", fault, {"seconds": round(seconds), "reason": why})


def test_first_reason_is_kept_and_node_stays_drained_without_resume_option(
    sandbox: Cluster, settings: Callable[..., None]
) -> None:
    settings(resume=False)
    sandbox.exec(NODE, recording(LOST))
    drained(sandbox, LOST_REASON)
    told = reason(sandbox)
    sandbox.exec(NODE, recording(gpu_recording(NODE, 1)))
    shown = sandbox.exec(NODE, f"{PROGRAM}; {PROGRAM} --look", check=False)
    assert shown.returncode == 1
    assert shown.stdout.splitlines() == ["GPUs: 2 declared, 1 found: 0 at ffff:01:00.0"] * 2
    sandbox.exec(NODE, recording(FULL))
    assert sandbox.exec(NODE, f"for look in 1 2 3; do {PROGRAM}; done; {PROGRAM} --look").stdout == ""
    assert reason(sandbox) == told


def test_link_flaps_are_counted_anew_after_the_node_is_resumed(sandbox: Cluster, settings: Callable[..., None]) -> None:
    settings()
    known = f"grep -q link_down {KEPT}/state.json"
    sandbox.wait_until(lambda: sandbox.exec(NODE, known, check=False).returncode == 0, "no look was made")
    sandbox.exec(NODE, f"echo 3 >{CARD}/carrier_down_count")
    drained(sandbox, "link sim0 went down 3 times in 3 h")
    told = reason(sandbox)
    # The counter is unchanged, and the window has not passed.
    sandbox.exec(NODE, f"for look in 1 2 3; do {PROGRAM}; done", check=False)
    assert reason(sandbox) == told
    sandbox.exec("ctl", f"scontrol update NodeName={NODE} State=RESUME")
    sandbox.exec(NODE, PROGRAM, check=False)
    sandbox.exec(NODE, f"echo 5 >{CARD}/carrier_down_count")
    assert sandbox.exec(NODE, f"for look in 1 2 3; do {PROGRAM}; done; {PROGRAM} --look").stdout == ""
    assert reason(sandbox) == ""
    began = time.monotonic()
    sandbox.exec(NODE, f"echo 6 >{CARD}/carrier_down_count")
    drained(sandbox, "link sim0 went down 3 times in 3 h")
    flapped = {"seconds": round(time.monotonic() - began), "reason": "link sim0 went down 3 times in 3 h"}
    note("drains", "a link that flaps again after its node was given back", flapped)


@pytest.mark.core
def test_an_xid_remains_until_an_admin_resumes_the_node(sandbox: Cluster, settings: Callable[..., None]) -> None:
    settings()
    began = time.monotonic()
    sandbox.exec(NODE, program("journalctl", f'#!/bin/sh\\necho "{XID}"\\n'))
    drained(sandbox, XID_REASON)
    note("drains", "an Xid", {"seconds": round(time.monotonic() - began), "reason": XID_REASON})
    sandbox.exec(NODE, "rm /usr/local/sbin/journalctl")
    told = reason(sandbox)
    sandbox.exec(NODE, f"for look in 1 2 3; do {PROGRAM}; done")
    assert reason(sandbox) == told
    sandbox.exec("ctl", f"scontrol update NodeName={NODE} State=RESUME")
    assert sandbox.exec(NODE, f"{PROGRAM} >/dev/null; {PROGRAM}; {PROGRAM} --look").stdout == ""
    assert reason(sandbox) == ""


def test_drain_of_an_admin_is_left_alone(sandbox: Cluster, settings: Callable[..., None]) -> None:
    settings(resume=True)
    sandbox.exec("ctl", f"scontrol update NodeName={NODE} State=DRAIN Reason='new memory on Monday'")
    told = reason(sandbox)
    assert told.startswith("Reason=new memory on Monday [")
    sandbox.exec(NODE, recording(LOST))
    sandbox.exec(NODE, PROGRAM)
    assert reason(sandbox) == told
    sandbox.exec(NODE, recording(FULL))
    sandbox.exec(NODE, f"{PROGRAM}; {PROGRAM}")
    assert reason(sandbox) == told


def test_drained_nodes_are_limited_to_drain_percent(sandbox: Cluster, settings: Callable[..., None]) -> None:
    settings(drain_percent=10)
    sandbox.exec("ctl", f"scontrol update NodeName={OTHER} State=DRAIN Reason='busbar health: of an earlier hour'")
    try:
        sandbox.exec(NODE, recording(LOST))
        withheld = f"grep -x 'busbar_node_health_drain_withheld 1' {METRICS}/busbar_node_health.prom"
        sandbox.wait_until(
            lambda: sandbox.exec(NODE, withheld, check=False).returncode == 0, "the drain is not withheld"
        )
        assert reason(sandbox) == ""
        assert sandbox.node_states() == dict.fromkeys(sandbox.node_states(), "idle") | {OTHER: "drain"}
    finally:
        sandbox.exec("ctl", f"scontrol update NodeName={OTHER} State=RESUME")
    drained(sandbox, LOST_REASON)


def test_quick_check_before_a_job_does_not_query_slurm(sandbox: Cluster, settings: Callable[..., None]) -> None:
    settings(mounts=["/mnt/shared"])
    quick = f"env SLURM_CONF=/nowhere timeout 5 {FOLDER}/node_health_prolog"
    assert sandbox.exec(NODE, quick).stdout == ""
    sandbox.exec("ctl", f"scontrol update NodeName={NODE} State=DRAIN Reason='a test of mounts'")
    sandbox.exec(NODE, "umount /mnt/shared")
    done = sandbox.exec(NODE, quick, check=False)
    assert (done.returncode, "/mnt/shared is not mounted" in done.stdout) == (1, True)


def test_health_command_shows_nodes_from_the_provisioning_host(sandbox: Cluster, settings: Callable[..., None]) -> None:
    settings()
    where = ("--sandbox", "--name", sandbox.name)
    done = sandbox.busbar("health", NODE, *where)
    assert (done.returncode, done.stdout) == (0, "gpu1: healthy\n"), done.stdout + done.stderr
    sandbox.exec("ctl", f"scontrol update NodeName={NODE} State=DRAIN Reason='a test of GPUs'")
    sandbox.exec(NODE, recording(LOST))
    done = sandbox.busbar("health", NODE, *where)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"gpu1: RESET gpu: GPU 1 ({LABEL}) is lost: the driver cannot reach it" in done.stdout
