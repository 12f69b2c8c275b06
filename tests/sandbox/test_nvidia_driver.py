"""Tests of driver packages from a signed repository: installed, pinned, held, changed together; and of a reboot."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from conftest import recap
from package_repository import KEY_FILE, Package, Repository, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("nvidia_driver", "nvidia_repository")

NODE = "gpu1"
OLD, NEW = "570.133.20", "580.95.05"
# Until this file exists, its module build fails and the package's script ends with DKMS's error.
BROKEN, CURED = "590.48.01", "/run/busbar-test-dkms"
RECORDING = "/etc/simulated-gpus.xml"
REBOOT = "/usr/local/sbin/simulated-reboot"
BOOTS = "/run/simulated-boots"
HARDWARE = {
    "gpu": {
        "model": "NVIDIA H100 80GB HBM3",
        "count": 2,
        "slurm_type": "sim",
        "device_files": "/dev/nvidia[0-1]",
        "memory_mb": 1024,
        "nvlink_gbs": 450,
        "nvswitch": True,
    }
}
UNIT = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
SHOWN = "dpkg-query -W -f '${Package} ${Version} ${Status}\\n' 'nvidia-*' 'libnvidia-*' libcuda1 2>/dev/null"
# Replaces modinfo: the module files of the test packages only contain a version.
MODINFO = """cat >/usr/local/sbin/modinfo <<'END'
#!/bin/sh
[ "$1 $2" = "-F version" ] && exec sed -n 's/^version=//p' "$3"
exit 1
END
chmod +x /usr/local/sbin/modinfo"""
LOG = f"/var/lib/dkms/nvidia/{BROKEN}/build"
SCRIPTS = {
    "postinst": f"""#!/bin/sh
[ -e {CURED} ] || {{
  mv /lib/modules/*/updates/dkms/nvidia.ko /run/busbar-test-module
  mkdir -p {LOG} && echo 'make: *** Error 2' >{LOG}/make.log
  exit 10
}}
"""
}
JOINED = "<state>Completed</state><status>Success</status>"
# Restores the node's packages, repositories, settings and services.
CLEAN = f"""
systemctl disable --now nvidia-persistenced nvidia-fabricmanager 2>/dev/null
names=$({SHOWN} | grep ' ok installed$' | cut -d' ' -f1)
[ -z "$names" ] || {{ apt-mark unhold $names >/dev/null && apt-get purge -y $names >/dev/null || exit 1; }}
rm -f /etc/apt/preferences.d/busbar-nvidia_driver.pref /etc/modprobe.d/busbar-nvidia.conf
rm -f /etc/apt/*/busbar-cuda.* /etc/apt/*/busbar-repository-cuda.* /var/lib/apt/lists/*:8099_*
systemctl daemon-reload
"""


def driver(version: str, kernel: str = "none") -> list[Package]:
    """Return the packages of one version as in NVIDIA's repository for Debian, with a module for a kernel."""
    module = {f"/lib/modules/{kernel}/updates/dkms/nvidia.ko": f"version={version}\n"}
    old = version == OLD
    fabric, nscq = (
        ("nvidia-fabricmanager-570", "libnvidia-nscq-570") if old else ("nvidia-fabricmanager", "libnvidia-nscq")
    )
    exact = f"{version}-1"
    return [
        Package("nvidia-driver-cuda", exact, (f"libcuda1 (= {exact})", f"nvidia-persistenced (= {exact})")),
        Package("libcuda1", exact),
        Package("nvidia-persistenced", exact, files={"/lib/systemd/system/nvidia-persistenced.service": UNIT}),
        Package("nvidia-modprobe", exact),
        Package("nvidia-kernel-open-dkms", exact, files=module, scripts=SCRIPTS if version == BROKEN else {}),
        Package(fabric, exact, files={"/lib/systemd/system/nvidia-fabricmanager.service": UNIT}),
        Package(nscq, exact),
    ]


@pytest.fixture(scope="module")
def repository(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Serve a repository with two branches from ctl; the node is restored at the end."""
    made = Repository(tmp_path_factory.mktemp("cuda"))
    kernel = sandbox.exec(NODE, "uname -r").stdout.strip()
    include = {f"/lib/modules/{kernel}/build/include/config": ""}
    made.add(*driver(OLD, kernel), *driver(NEW, kernel), *driver(BROKEN, kernel))
    made.add(Package(f"linux-headers-{kernel}", "1", files=include)).publish()
    sandbox.exec(NODE, f"cp -p {RECORDING} {RECORDING}.sound; {MODINFO}")
    fabric(sandbox, JOINED)
    with served(sandbox, made) as url:
        lock = tmp_path_factory.mktemp("site") / "nvidia_driver.lock.yml"
        yield {"url": url, "made": made, "other": Repository(tmp_path_factory.mktemp("other")), "lock": lock}
    sandbox.exec(
        NODE, f"mv {RECORDING}.sound {RECORDING}; rm -rf {REBOOT} {BOOTS} {CURED} {LOG} /usr/local/sbin/modinfo"
    )
    sandbox.exec(NODE, f"apt-get purge -y linux-headers-{kernel}", check=False)
    sandbox.exec(NODE, CLEAN)
    assert installed(sandbox) == {}
    sandbox.exec("ctl", f"scontrol update nodename={NODE} state=resume", check=False)
    sandbox.wait_idle()


def run(sandbox: Cluster, repository: dict[str, Any], *options: str, **settings: Any) -> Any:  # noqa: ANN401 - as given
    """Run the playbook for the node with the HGX hardware; return exit code, output and number of changes."""
    given: dict[str, Any] = {
        "nvidia_driver_source": "nvidia",
        "__nvidia_driver_hardware": HARDWARE,
        "nvidia_driver_kernel_parts": "managed",
        "nvidia_driver_lock_file": str(repository["lock"]),
        "__nvidia_driver_cluster_hosts": [NODE],
        "nvidia_repository_urls": {"cuda": repository["url"]},
        "nvidia_repository_key_urls": {"cuda": repository["url"] + KEY_FILE},
        "nvidia_repository_fingerprints": {"cuda": repository["made"].fingerprint},
    }
    given |= {f"nvidia_driver_{key}": value for key, value in settings.items()}
    done = sandbox.playbook("nvidia.yml", "--limit", NODE, "-e", json.dumps(given), *options)
    counts = recap(done.stdout).get(NODE, {})
    # YAML output breaks lines and doubles quotes.
    told = " ".join((done.stdout + done.stderr).split()).replace("''", "'")
    return done.returncode, told, counts.get("changed", 0)


def installed(sandbox: Cluster) -> dict[str, str]:
    """Return the driver's installed packages with their versions, without the package revision."""
    lines = sandbox.exec(NODE, SHOWN, check=False).stdout.splitlines()
    return {line.split()[0]: line.split()[1].removesuffix("-1") for line in lines if line.endswith("ok installed")}


def expected(version: str) -> dict[str, str]:
    return {package.name: version for package in driver(version)}


def load(sandbox: Cluster, version: str) -> None:
    """Set the version of the simulated driver."""
    sandbox.exec(NODE, f"sed -i 's|<driver_version>.*</|<driver_version>{version}</|' {RECORDING}")


def fabric(sandbox: Cluster, words: str) -> None:
    """Set the fabric state that the simulated GPUs report."""
    sandbox.exec(NODE, f"sed -i 's|<fabric>.*</fabric>|<fabric>{words}</fabric>|' {RECORDING}")


def test_wrong_signature_is_refused_and_nothing_changes(sandbox: Cluster, repository: dict[str, Any]) -> None:
    before = sandbox.exec(NODE, "find /etc/apt -type f | sort").stdout
    repository["made"].resign(repository["other"])
    code, output, _ = run(sandbox, repository, version=OLD)
    repository["made"].resign(repository["made"])
    assert code == 2, output
    assert "sign" in output
    assert installed(sandbox) == {}
    assert sandbox.exec(NODE, "find /etc/apt -type f | sort").stdout == before


def test_check_mode_shows_the_packages_of_a_container(sandbox: Cluster, repository: dict[str, Any]) -> None:
    code, output, changed = run(sandbox, repository, "--check", "--diff", version=OLD, kernel_parts="auto")
    assert code == 0, output
    assert changed > 0
    assert f"+nvidia-fabricmanager-570 {OLD}" in output
    assert "nvidia-kernel-open-dkms" not in output
    assert "left alone: a container shares the kernel of its host" in output
    assert installed(sandbox) == {}


@pytest.mark.scenario
def test_declared_version_is_installed_and_held(sandbox: Cluster, repository: dict[str, Any]) -> None:
    code, output, _ = run(sandbox, repository, version=OLD, module_parameters={"nvidia": {"NVreg_Test": True}})
    assert code == 2, output
    assert installed(sandbox) == expected(OLD)
    assert f"{NODE}: NVIDIA driver: reboot needed: the loaded driver is 0.0-simulated, but {OLD} is installed" in output
    assert "remedy: run again with -e nvidia_driver_reboot=true" in output
    assert "TASK [busbar.cluster.cuda" not in output, "the node went on"
    options = sandbox.exec(NODE, "cat /etc/modprobe.d/busbar-nvidia.conf").stdout
    assert "\nblacklist nouveau\n" in options
    assert "\noptions nvidia NVreg_Test=1\n" in options
    assert set(sandbox.exec(NODE, "apt-mark showhold").stdout.split()) == set(expected(OLD))
    # Both the hold alone and the pin alone prevent the upgrade to a newer version in the repository.
    assert BROKEN in sandbox.exec(NODE, "apt-cache madison nvidia-driver-cuda").stdout
    for upgrade in ("dist-upgrade", "--ignore-hold dist-upgrade", "--ignore-hold install nvidia-driver-cuda"):
        assert BROKEN not in sandbox.exec(NODE, f"apt-get -s {upgrade}").stdout
    pins = "/etc/apt/preferences.d/busbar-nvidia_driver.pref"
    unpinned = f"mv {pins} {pins}.off; apt-get -s %s dist-upgrade; mv {pins}.off {pins}"
    assert BROKEN not in sandbox.exec(NODE, unpinned % "").stdout
    assert BROKEN in sandbox.exec(NODE, unpinned % "--ignore-hold").stdout


def test_second_run_changes_nothing_except_starting_services(sandbox: Cluster, repository: dict[str, Any]) -> None:
    settings = {"version": OLD, "module_parameters": {"nvidia": {"NVreg_Test": True}}}
    load(sandbox, OLD)
    code, output, changed = run(sandbox, repository, **settings)
    assert (code, changed) == (0, 1), output
    assert sandbox.exec(NODE, "systemctl is-active nvidia-fabricmanager nvidia-persistenced").stdout == "active\n" * 2
    code, output, changed = run(sandbox, repository, **settings)
    assert (code, changed) == (0, 0), output
    assert "reboot needed" not in output


@pytest.mark.fault(
    "GPUs that do not join their fabric",
    says="wrong fabric state (found In Progress, expected Completed)",
    heals="run again when the fabric manager is up",
)
def test_gpus_outside_their_fabric_fail_the_run(sandbox: Cluster, repository: dict[str, Any]) -> None:
    fabric(sandbox, "<state>In Progress</state><status>N/A</status>")
    code, output, _ = run(sandbox, repository, version=OLD, fabric_timeout=5)
    fabric(sandbox, JOINED)
    assert code == 2, output
    assert f"{NODE}: GPU 0: wrong fabric state (found In Progress, expected Completed); GPU 1: its fabric" in output


@pytest.mark.fault(
    "a kernel without its NVIDIA module",
    says="has no kernel module for the running kernel",
    heals="build the module as its log says, run again",
)
def test_missing_kernel_module_fails_the_run_with_the_log(sandbox: Cluster, repository: dict[str, Any]) -> None:
    module, log = "/lib/modules/$(uname -r)/updates/dkms/nvidia.ko", f"/var/lib/dkms/nvidia/{OLD}/build"
    sandbox.exec(NODE, f"mv {module} {module}.gone; mkdir -p {log}; echo 'make: *** Error 2' >{log}/make.log")
    try:
        code, output, _ = run(sandbox, repository, version=OLD)
    finally:
        sandbox.exec(NODE, f"mv {module}.gone {module}; rm -rf /var/lib/dkms/nvidia")
    assert code == 2, output
    assert f"{NODE}: DKMS: driver {OLD} has no kernel module for the running kernel" in output
    assert f"{log}/make.log: make: *** Error 2" in output


@pytest.mark.fault(
    "a driver whose build fails",
    says="the build failed; last lines of ",
    heals="fix the error in the log, run again",
)
def test_failed_module_build_is_reported_with_its_log(sandbox: Cluster, repository: dict[str, Any]) -> None:
    code, output, _ = run(sandbox, repository, version=BROKEN)
    assert code == 2, output
    assert (
        f"partly installed, so the host differs from its previous state: nvidia-kernel-open-dkms {BROKEN}-1 (half-con"
        in output
    )
    assert f"the build failed; last lines of {LOG}/make.log: make: *** Error 2" in output
    assert "The node stays drained: fix the error and run again" in output
    sandbox.exec(NODE, f"touch {CURED}; rm -rf /var/lib/dkms/nvidia")
    code, output, _ = run(sandbox, repository, version=OLD)
    assert code == 0, output
    assert installed(sandbox) == expected(OLD)
    sandbox.wait_idle()


def test_driver_is_not_replaced_while_a_job_runs(sandbox: Cluster, repository: dict[str, Any]) -> None:
    sandbox.wait_idle()
    number = sandbox.exec(
        "login", f"sbatch --parsable -w {NODE} -n1 --mem=64 -o /dev/null --wrap 'sleep 600'", user="alice"
    )
    job = number.stdout.strip()
    sandbox.wait_until(lambda: job in running(sandbox), "the job does not start")
    try:
        for mode in ([], ["--check"]):
            code, output, _ = run(sandbox, repository, *mode, branch="580")
            assert code == 2, output
            assert f"{NODE}: its NVIDIA driver was not changed to {NEW}: job {job} of alice. Set -e" in output
        assert installed(sandbox) == expected(OLD)
        assert sandbox.node_states().get(NODE) in {"mix", "alloc"}
    finally:
        sandbox.exec("ctl", f"scancel {job}")
    sandbox.wait_idle()


def test_fabric_manager_is_upgraded_and_downgraded_with_the_driver(
    sandbox: Cluster, repository: dict[str, Any]
) -> None:
    code, output, changed = run(sandbox, repository, "--check", branch="580", version="")
    assert (code, changed > 0) == (0, True), output
    assert installed(sandbox) == expected(OLD)
    code, output, _ = run(sandbox, repository, branch="580")
    assert code == 2, output
    assert installed(sandbox) == expected(NEW)
    assert "the run skips this node from here on and is drained in Slurm" in output
    assert f"{NODE}: NVIDIA driver: reboot needed: the loaded driver is {OLD}, but {NEW} is installed" in output
    assert f'"580": "{NEW}"' in repository["lock"].read_text()
    reason = f"busbar: NVIDIA driver {NEW} waits for a reboot"
    assert sandbox.exec("ctl", f"sinfo -h -n {NODE} -o '%T|%E'").stdout.strip() == f"drained|{reason}"
    code, output, _ = run(sandbox, repository, version=OLD)
    assert code == 0, output
    assert installed(sandbox) == expected(OLD)
    assert "reboot needed" not in output
    sandbox.wait_idle()


class Release(threading.Thread):
    """Ends the job of the node once the node is draining."""

    def __init__(self, sandbox: Cluster, release: str) -> None:
        """Store the file that the job waits for."""
        super().__init__()
        self.sandbox, self.release = sandbox, release
        self.drained_with_job = False
        self.over = threading.Event()

    def run(self) -> None:
        """Watch until the node is draining, or the test is over."""
        while not self.over.wait(0.5):
            if self.sandbox.node_states().get(NODE) == "drng":
                self.drained_with_job = True
                self.sandbox.exec(NODE, f"touch {self.release}")
                return


def test_node_is_drained_rebooted_checked_and_resumed(sandbox: Cluster, repository: dict[str, Any]) -> None:
    """The reboot is simulated: on some hosts a stopping container removes the other containers' cgroups."""
    sandbox.wait_idle()
    release = "/var/tmp/release-the-job"  # noqa: S108 - of a node of the sandbox
    say = f"sed -i 's|<driver_version>.*</|<driver_version>{NEW}</|' {RECORDING}"
    simulate_reboot(sandbox, f"{say}; systemctl restart slurmd; rm -f {release}")
    wait = f"while [ ! -e {release} ]; do sleep 1; done"
    job = f"sbatch --parsable -w {NODE} -n1 --mem=64 -o /dev/null --wrap '{wait}'"
    number = sandbox.exec("login", job, user="alice").stdout.strip()
    sandbox.wait_until(lambda: number in running(sandbox), "the job does not start")
    watch = Release(sandbox, release)
    watch.start()
    try:
        code, output, _ = run(
            sandbox, repository, branch="580", reboot=True, reboot_command=REBOOT, boot_time_command=f"cat {BOOTS}"
        )
    finally:
        watch.over.set()
        watch.join()
        sandbox.exec("ctl", f"scancel {number}", check=False)
        sandbox.exec(NODE, f"rm -f {release}")
    assert code == 0, output
    # The run waited for the job and did not kill it.
    assert watch.drained_with_job
    assert "JobState=COMPLETED" in sandbox.exec("ctl", f"scontrol show job {number}").stdout
    assert installed(sandbox) == expected(NEW)
    assert sandbox.exec(NODE, "systemctl is-active nvidia-fabricmanager").stdout == "active\n"
    sandbox.wait_idle()


def simulate_reboot(sandbox: Cluster, script: str) -> None:
    """Write the simulated reboot command: it runs the script and changes the boot time."""
    text = f"#!/bin/sh\n{script}\ndate +%s%N >{BOOTS}\n"
    sandbox.exec(NODE, f"cat > {REBOOT} <<'END'\n{text}END\nchmod +x {REBOOT}; date +%s%N >{BOOTS}")


def running(sandbox: Cluster) -> list[str]:
    return sandbox.exec("ctl", "squeue -h -t R -o %i").stdout.split()


@pytest.mark.fault(
    "a driver that is not loaded after the reboot",
    says="failed: after the reboot the driver ",
    heals="run again; the node stays drained until it is right",
)
def test_node_that_fails_its_check_stays_drained(sandbox: Cluster, repository: dict[str, Any]) -> None:
    # Simulates a boot with the previous driver.
    simulate_reboot(sandbox, "true")
    code, output, _ = run(
        sandbox,
        repository,
        version=OLD,
        reboot=True,
        reboot_command=REBOOT,
        boot_time_command=f"cat {BOOTS}",
    )
    assert code == 2, output
    reason = f"busbar: NVIDIA driver {OLD} failed: after the reboot the driver {NEW} is loaded, {OLD} is declared"
    assert sandbox.exec("ctl", f"sinfo -h -n {NODE} -o '%T|%E'").stdout.strip() == f"drained|{reason}"
    assert f"{NODE}: check | Fail if the loaded driver is not the declared version: after the reboot" in output
    # The drain reason of an admin is kept, and the node is not resumed.
    sandbox.exec("ctl", f"scontrol update nodename={NODE} state=drain reason='cable, Meyer'")
    simulate_reboot(sandbox, f"sed -i 's|<driver_version>.*</|<driver_version>{OLD}</|' {RECORDING}")
    code, output, _ = run(
        sandbox, repository, version=OLD, reboot=True, reboot_command=REBOOT, boot_time_command=f"cat {BOOTS}"
    )
    assert code == 0, output
    assert sandbox.exec("ctl", f"sinfo -h -n {NODE} -o '%T|%E'").stdout.strip() == "drained|cable, Meyer"
