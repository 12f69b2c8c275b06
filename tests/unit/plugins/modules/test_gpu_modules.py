"""Tests of the modules for GPU settings and MIG, with the sandbox's simulated nvidia-smi and a fake Slurm."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.nvidia_smi_run import local_jobs
from ansible_collections.busbar.cluster.plugins.modules import gpu_settings, mig_layout
from module_run import module_result
from simulated_gpus import SIMULATED_A100, SimulatedGpus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    Run = Callable[..., dict[str, Any]]

LAYOUT = [{"profile": "3g.20gb", "count": 2, "gpus": [0]}]
GPU = {"model": "NVIDIA A100-SXM4-40GB", "memory_mb": 40960, "count": 2, "slurm_type": "a100"}


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedGpus:
    simulated = SimulatedGpus(tmp_path, SIMULATED_A100)
    for module in (gpu_settings, mig_layout):
        monkeypatch.setattr(module, "smi_runner", lambda _: simulated)
        monkeypatch.setattr(module, "local_jobs", list)
    return simulated


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(module: ModuleType, *, check: bool = False, **options: object) -> dict[str, Any]:
        return module_result(module, capsys, **options, _ansible_check_mode=check)

    return call


def test_settings_are_applied_once(
    run: Run, smi: SimulatedGpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "run" / "clocks"
    monkeypatch.setattr(gpu_settings, "RECORD", record)
    wanted = {"settings": {"power_limit_w": 300, "graphics_clocks_mhz": [210, 705], "ecc": False}}
    planned = run(gpu_settings, check=True, **wanted)
    assert (planned["changed"], record.exists(), smi.now.exists()) == (True, False, False)
    assert planned["diff"][0]["after"].splitlines()[0] == "GPU 0: ecc: off"
    first = run(gpu_settings, **wanted)
    assert first["commands"] == ["nvidia-smi -e 0", "nvidia-smi -pl 300", "nvidia-smi -lgc 210,705"]
    assert "ECC off of GPU 0,1 is not active until a reboot" in first["pending"]
    assert record.read_text() == "-lgc 210,705\n"
    assert run(gpu_settings, **wanted)["changed"] is False
    freed = run(gpu_settings, settings={"graphics_clocks_mhz": "default"})
    assert (freed["commands"], record.read_text()) == (["nvidia-smi -rgc"], "")


def test_vboost_slider_is_set_on_the_gpu_that_differs(run: Run, smi: SimulatedGpus) -> None:
    wanted: dict[str, Any] = {"settings": {"vboost": 1}}
    assert "vboost: not supported by the GPU" in run(gpu_settings, **wanted)["msg"]
    first, second = smi.kept.read_text().rsplit("</gpu>", 2)[:2]
    slider = "<simulated_vboost most='4' now='{}'/></gpu>".format
    smi.kept.write_text(f"{first}{slider(0)}{second}{slider(1)}</nvidia_smi_log>")
    assert run(gpu_settings, **wanted)["commands"] == ["nvidia-smi boost-slider -i 0 --vboost 1"]
    assert run(gpu_settings, **wanted)["changed"] is False
    assert run(gpu_settings, settings={"vboost": "default"})["commands"] == ["nvidia-smi boost-slider --vboost 0"]
    assert "the GPU supports 0 to 4" in run(gpu_settings, settings={"vboost": 9})["msg"]
    assert smi(["--vboost", "1"])[0] == 2


def test_recorded_clocks_expire_when_the_driver_is_reloaded(tmp_path: Path) -> None:
    record, driver = tmp_path / "clocks", tmp_path / "driver"
    assert gpu_settings.recorded(record, driver) == []
    record.write_text("-lgc 210,705\n")
    assert gpu_settings.recorded(record, driver) == ["-lgc 210,705"]
    os.utime(record, (1, 1))
    driver.mkdir()
    assert gpu_settings.recorded(record, driver) == []


def test_unsupported_setting_fails_before_the_first_change(run: Run, smi: SimulatedGpus) -> None:
    answer = run(gpu_settings, settings={"power_limit_w": 900, "ecc": False})
    assert answer["msg"].startswith("Nothing was changed. GPU 0,1: power_limit_w: 900 W: the GPU supports 100 to 500 W")
    assert not smi.now.exists()


def test_running_jobs_postpone_settings_that_affect_them(
    run: Run, smi: SimulatedGpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    smi(["-pm", "0"])
    monkeypatch.setattr(gpu_settings, "local_jobs", lambda: ["12", "14"])
    monkeypatch.setattr(gpu_settings, "RECORD", tmp_path / "clocks")
    wanted = {"settings": {"persistence": True, "power_limit_w": 300}}
    assert "drain the node first" in run(gpu_settings, busy="refuse", **wanted)["msg"]
    answer = run(gpu_settings, **wanted)
    assert answer["commands"] == ["nvidia-smi -pm 1"]
    assert answer["deferred"] == "power_limit_w: running jobs would be affected: 12, 14"


def test_settings_wait_for_the_boot_if_the_driver_does_not_answer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_settings, "smi_runner", lambda _: None)
    answer = run(gpu_settings, settings={"persistence": True})
    assert (answer["changed"], answer["unread"]) == (False, "nvidia-smi: not installed")
    monkeypatch.setattr(mig_layout, "smi_runner", lambda _: lambda _words: (9, "couldn't communicate\nwith it"))
    answer = run(mig_layout, layout=LAYOUT, node="gpu1", gpu=GPU)
    assert answer["unread"] == "nvidia-smi: couldn't communicate with it"
    assert answer["boot_lines"] == ["0 3g.20gb:0,3g.20gb:4"]
    assert answer["gres"] == {"3g.20gb": 2, "a100": 1}


def test_jobs_are_identified_by_their_step_processes(tmp_path: Path) -> None:
    for number, name in (("7", "slurmstepd: [12.extern]\0"), ("8", "slurmstepd: [9.0]\0"), ("9", "sleep\0 [3.0]")):
        (tmp_path / number).mkdir()
        (tmp_path / number / "cmdline").write_text(name)
    (tmp_path / "10").mkdir()
    assert local_jobs(tmp_path) == ["9", "12"]


class Slurm:
    """Fake scontrol and squeue for one node."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gres: str, jobs: list[list[str]]) -> None:
        """Store Slurm's record of the node, and the jobs of each squeue call."""
        self.state, self.reason, self.gres, self.jobs, self.done = "IDLE", "", gres, jobs, list[str]()
        self.units: dict[str, str] = {}
        self.broken: list[list[str]] = []
        self.devices = 0, "", ""
        self.described: list[str] = []
        self.cdi = 5, "", "Failed to try-restart nvidia-cdi-refresh.service: Unit nvidia-cdi-refresh.service not found."
        monkeypatch.setattr(mig_layout, "module_run", lambda _: self.answer)

    def answer(self, words: list[str]) -> tuple[int, str, str]:  # noqa: PLR0911 - an answer for each program
        """Answer one command."""
        if words[:2] == ["scontrol", "show"]:
            return (
                0,
                f"NodeName=gpu1\n   Gres={self.gres}\n   State={self.state}\n   Reason={self.reason} [root@now]\n",
                "",
            )
        if words[:2] == ["systemctl", "is-active"]:
            return 3, "\n".join(self.units.get(name, "inactive") for name in words[2:]), ""
        if words[:2] in self.broken:
            return 1, "", "Job failed. See journalctl -xe"
        if words[0] == mig_layout.DEVICES:
            return self.devices
        if words[:2] == ["systemctl", "try-restart"] and words[2] in mig_layout.DESCRIBING:
            self.described.append(words[2])
            return self.cdi
        if words[0] == "squeue":
            return 0, "\n".join(self.jobs.pop(0) if self.jobs else []), ""
        self.done.append(" ".join(words))
        if "state=drain" in words:
            self.state, self.reason = "IDLE+DRAIN", words[-1].partition("=")[2]
        if "state=resume" in words:
            self.state, self.reason = "IDLE", ""
        return 0, "", ""


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    """Return a fake Slurm that knows the GPUs of the layout and runs no job."""
    return Slurm(monkeypatch, "gpu:3g.20gb:2,gpu:a100:1", [])


DRAIN = "scontrol update nodename=gpu1 state=drain reason=busbar: MIG layout"
RESTART, RESUME = "systemctl try-restart slurmd", "scontrol update nodename=gpu1 state=resume"


def test_layout_is_applied_between_drain_and_resume(run: Run, smi: SimulatedGpus, slurm: Slurm) -> None:
    wanted = {"layout": LAYOUT, "node": "gpu1", "gpu": GPU}
    planned = run(mig_layout, check=True, **wanted)
    assert (planned["changed"], slurm.done, smi.now.exists()) == (True, [], False)
    answer = run(mig_layout, **wanted)
    assert answer["commands"] == ["nvidia-smi -i 0 -mig 1", "nvidia-smi mig -i 0 -cgi 3g.20gb:0,3g.20gb:4 -C"]
    assert (answer["waits"], slurm.done) == (False, [DRAIN, RESTART, RESUME])
    assert run(mig_layout, **wanted)["changed"] is False
    assert len(slurm.done) == 3


def test_node_stays_drained_until_slurm_knows_its_gpus(
    run: Run, smi: SimulatedGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm, wanted = Slurm(monkeypatch, "gpu:a100:2", []), {"layout": LAYOUT, "node": "gpu1", "gpu": GPU}
    assert run(mig_layout, **wanted)["waits"] is True
    assert slurm.done == [DRAIN]
    assert run(mig_layout, **wanted)["waits"] is True
    slurm.gres = "gpu:3g.20gb:2(S:0),gpu:a100:1(S:1)"
    answer = run(mig_layout, **wanted)
    assert (answer["waits"], answer["changed"], slurm.done) == (False, True, [DRAIN, RESTART, RESUME])
    assert smi.now.exists()


def test_drain_by_another_user_is_kept(run: Run, smi: SimulatedGpus, slurm: Slurm) -> None:
    slurm.state, slurm.reason = "IDLE+DRAIN", "fan is broken"
    assert run(mig_layout, layout=LAYOUT, node="gpu1", gpu=GPU)["changed"] is True
    assert (slurm.done, slurm.reason, smi.now.exists()) == ([], "fan is broken", True)


def test_running_jobs_prevent_the_change_and_the_node_stays_in_service(
    run: Run, smi: SimulatedGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = Slurm(monkeypatch, "gpu:a100:2", [["7", "11"]] * 2)
    for check in (True, False):
        answer = run(mig_layout, check=check, layout=LAYOUT, node="gpu1", gpu=GPU)
        assert "Nothing was changed. Jobs 7, 11 still run on gpu1, and" in answer["msg"]
    assert slurm.done == [DRAIN, RESUME]
    assert not smi.now.exists()


def test_jobs_are_waited_for(run: Run, smi: SimulatedGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mig_layout, "STEP_S", 0)
    slurm = Slurm(monkeypatch, "gpu:3g.20gb:2,gpu:a100:1", [["7"], ["7"], []])
    assert run(mig_layout, layout=LAYOUT, node="gpu1", gpu=GPU, wait_s=60)["changed"] is True
    assert (slurm.done, slurm.jobs, smi.now.exists()) == ([DRAIN, RESTART, RESUME], [], True)


def test_failed_change_leaves_the_node_out_of_service(run: Run, smi: SimulatedGpus, slurm: Slurm) -> None:
    slurm.gres = "gpu:a100:2"
    broken = smi.kept.read_text().replace('starts="0,4"', 'starts="4"')
    smi.kept.write_text(broken)
    answer = run(mig_layout, layout=LAYOUT, node="gpu1", gpu=GPU)
    assert "Insufficient Resources; gpu1 stays drained" in answer["msg"]
    assert (answer["failed"], slurm.done) == (True, [DRAIN])


def test_impossible_layout_changes_nothing(run: Run, smi: SimulatedGpus, slurm: Slurm) -> None:
    slurm.gres = "gpu:a100:2"
    wanted: dict[str, Any] = {"layout": [{"profile": "3g.40gb", "count": 1}], "node": "gpu1", "gpu": GPU}
    answer = run(mig_layout, **wanted)
    assert answer["msg"].startswith("Nothing was changed. The MIG layout of gpu1 is not possible: ")
    assert answer["busbar_refused"] is True
    # The GPU differs from the profile.
    answer = run(mig_layout, **{**wanted, "gpu": {**GPU, "memory_mb": 81920}})
    assert answer["msg"].startswith("Nothing was changed. GPU 0: ")
    assert (slurm.done, smi.now.exists()) == ([], False)


def test_change_is_refused_if_the_controller_is_down(
    run: Run, smi: SimulatedGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        mig_layout, "module_run", lambda _: lambda _words: (1, "", "Unable to contact slurm controller")
    )
    answer = run(mig_layout, layout=LAYOUT, node="gpu1", gpu=GPU)
    assert "Nothing was changed. Slurm does not answer, so the jobs of this node are unknown" in answer["msg"]
    assert run(mig_layout, layout=[], node="gpu1", gpu=GPU)["changed"] is False
    assert not smi.now.exists()


DCGM = {"nvidia-dcgm-exporter": "active", "nvidia-dcgm": "activating", "nvsm": "failed"}
SERVICES = ["nvidia-dcgm-exporter", "dcgm-exporter", "nvidia-dcgm", "nvsm"]
STOP, START = (f"systemctl {what} nvidia-dcgm-exporter nvidia-dcgm" for what in ("stop", "start"))


def test_services_using_the_gpus_are_stopped_and_restarted(run: Run, smi: SimulatedGpus, slurm: Slurm) -> None:
    slurm.units = DCGM
    wanted = {"layout": LAYOUT, "node": "gpu1", "gpu": GPU, "services": SERVICES}
    assert run(mig_layout, check=True, **wanted)["changed"] is True
    assert slurm.done == []
    assert run(mig_layout, **wanted)["changed"] is True
    assert slurm.done == [DRAIN, STOP, START, RESTART, RESUME]
    assert run(mig_layout, **wanted)["changed"] is False
    assert slurm.done[5:] == []
    assert smi.now.exists()


def test_services_are_restarted_after_a_failed_change(run: Run, smi: SimulatedGpus, slurm: Slurm) -> None:
    slurm.gres = "gpu:a100:2"
    slurm.units = DCGM
    smi.kept.write_text(smi.kept.read_text().replace('starts="0,4"', 'starts="4"'))
    answer = run(mig_layout, layout=LAYOUT, node="gpu1", gpu=GPU, services=SERVICES)
    assert "Insufficient Resources" in answer["msg"]
    assert slurm.done == [DRAIN, STOP, START]


def test_services_that_do_not_stop_or_start_are_named(run: Run, smi: SimulatedGpus, slurm: Slurm) -> None:
    slurm.units, slurm.broken = DCGM, [["systemctl", "stop"]]
    wanted = {"layout": LAYOUT, "node": "gpu1", "gpu": GPU, "services": SERVICES}
    assert (
        "Nothing was changed. nvidia-dcgm-exporter, nvidia-dcgm cannot be stopped" in run(mig_layout, **wanted)["msg"]
    )
    assert (slurm.done, smi.now.exists()) == ([DRAIN, START, RESUME], False)
    slurm.broken, slurm.done = [["systemctl", "start"]], []
    answer = run(mig_layout, **wanted)
    assert "nvidia-dcgm-exporter, nvidia-dcgm: Job failed" in answer["msg"]
    # Its GPUs are no longer monitored, so the node stays out of service.
    assert slurm.done == [DRAIN, STOP]


def test_pending_mig_mode_is_reported(
    run: Run, smi: SimulatedGpus, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver cannot reset an A100 or A30 while a process has it open: the MIG mode stays pending."""
    slurm.gres = "gpu:a100:2"

    def held(words: list[str]) -> tuple[int, str]:
        status, text = smi(words)
        if words[:2] == ["-q", "-x"]:
            text = text.replace("<current_mig>Enabled<", "<current_mig>Disabled<")
        return status, text

    monkeypatch.setattr(mig_layout, "smi_runner", lambda _: held)
    answer = run(mig_layout, layout=LAYOUT, node="gpu1", gpu=GPU)
    assert "MIG mode of GPU 0 changes only with a GPU reset" in answer["msg"]
    assert "gpu1 stays drained. Remedy: reboot gpu1, or" in answer["msg"]
    assert (answer["failed"], slurm.done) == (True, [DRAIN])


def test_device_files_are_created_before_the_node_is_resumed(
    run: Run, smi: SimulatedGpus, slurm: Slurm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "mig_devices.py"
    program.touch()
    monkeypatch.setattr(mig_layout, "DEVICES", str(program))
    wanted = {"layout": LAYOUT, "node": "gpu1", "gpu": GPU}
    slurm.devices = 1, "", "mig-minors has no gpu0/gi1/access"
    assert "mig-minors has no gpu0/gi1/access; slurmd cannot" in run(mig_layout, **wanted)["msg"]
    assert slurm.done == [DRAIN]
    slurm.devices = 0, "gpu0: nothing -> /dev/nvidia0\n", ""
    planned = run(mig_layout, check=True, **wanted)
    assert (planned["changed"], planned["diff"][0]["after"]) == (True, "gpu0: nothing -> /dev/nvidia0\n")
    assert slurm.done == [DRAIN]
    slurm.devices = 0, "", ""
    assert run(mig_layout, **wanted)["changed"] is True
    assert slurm.done == [DRAIN, RESTART, RESUME]
    assert smi.now.exists()


def test_containers_get_the_mig_instances(
    run: Run, smi: SimulatedGpus, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {"layout": LAYOUT, "node": "gpu1", "gpu": GPU}
    warned: list[str] = []
    # If other tests have loaded controller code, Ansible's own warn writes to the screen instead of the result.
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, warning: warned.append(warning))
    run(mig_layout, check=True, **wanted)
    assert slurm.described == []
    # A host without the toolkit has none of the units.
    run(mig_layout, **wanted)
    assert warned == []
    assert slurm.described == ["busbar-nvidia-cdi", "nvidia-cdi-refresh"]
    run(mig_layout, **wanted)
    assert slurm.described[2:] == []
    slurm.cdi = 1, "", "Job for busbar-nvidia-cdi.service failed"
    run(mig_layout, **{**wanted, "layout": []})
    stale = [warning.split(" still exposes the previous MIG instances to containers: ")[0] for warning in warned]
    assert stale == ["busbar-nvidia-cdi", "nvidia-cdi-refresh"]
    assert smi.now.exists()
