"""The simulated nvidia-smi saves settings, refuses what a real card refuses, and loses settings at a reset or boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.gpu_settings_parse import settings_found
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.mig_change import mig_states
from busbar.sandbox.recording import Card
from simulated_gpus import SIMULATED_A100, SimulatedGpus

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def smi(tmp_path: Path) -> SimulatedGpus:
    return SimulatedGpus(tmp_path, SIMULATED_A100)


def test_settings_are_kept_until_a_boot(smi: SimulatedGpus) -> None:
    for words in (["-pl", "300"], ["-i", "1", "-ac", "1215,705"], ["-e", "0"], ["-c", "PROHIBITED"], ["-pm", "0"]):
        assert smi(words) == (0, "All done.")
    first, second = settings_found(smi(["-q", "-x"])[1])
    assert (first["power"]["now"], first["compute_mode"], first["persistence"]) == (300, "prohibited", False)
    assert (first["applications"]["graphics"], second["applications"]["graphics"]) == (1410, 705)
    assert (first["ecc"], first["ecc_pending"]) == (True, False)
    assert smi(["-rac"])[0] == 0
    assert settings_found(smi(["-q", "-x"])[1])[1]["applications"]["graphics"] == 1410
    smi.boot()
    first, _ = settings_found(smi(["-q", "-x"])[1])
    assert (first["power"]["now"], first["compute_mode"], first["ecc"], first["ecc_pending"]) == (
        400,
        "default",
        False,
        False,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-pl", "900"], "should be between 100.00 W and 500.00 W"),
        (["-ac", "1215,1000"], "(1215,1000) is not supported"),
        (["-lgc", "210,3000"], "not supported"),
        (["-lmc", "1,2"], "not supported"),
        (["mig", "-cgi", "1g.5gb", "-C"], "No MIG-enabled devices found"),
        (["mig", "-lgi"], "No MIG-enabled devices found"),
        (["-i", "7", "-pl", "300"], "No devices were found with 7"),
        (["--fan", "3"], "does not know --fan; the GPUs are simulated"),
    ],
)
def test_invalid_settings_are_refused_and_change_nothing(smi: SimulatedGpus, words: list[str], said: str) -> None:
    before = smi(["-q", "-x"])
    status, text = smi(words)
    assert status
    assert said in text
    assert smi(["-q", "-x"]) == before


def test_instances_get_the_placements_of_the_card(smi: SimulatedGpus) -> None:
    assert smi(["-mig", "1"])[0] == 0
    assert smi(["mig", "-lgi"]) == (6, "No GPU instances found: Not Found")
    assert smi(["mig", "-i", "0", "-cgi", "3g.20gb:4,1g.5gb:0,1g.5gb", "-C"])[0] == 0
    first, second = mig_states(smi(["-q", "-x"])[1], smi(["mig", "-lgi"])[1])
    assert first.instances == (("1g.5gb", 0), ("1g.5gb", 1), ("3g.20gb", 4))
    assert (first.complete, second.on, second.instances) == (True, True, ())
    assert "Insufficient Resources" in smi(["mig", "-i", "0", "-cgi", "4g.20gb", "-C"])[1]
    assert "In use by another client" in smi(["-i", "0", "-mig", "0"])[1]
    smi.boot()
    first, _ = mig_states(smi(["-q", "-x"])[1], smi(["mig", "-lgi"])[1])
    assert (first.on, first.instances) == (True, ())


def test_card_without_mig_refuses_mig(tmp_path: Path) -> None:
    assert "not supported" in SimulatedGpus(tmp_path, Card())(["-mig", "1"])[1]


def test_reset_is_refused_while_gpus_are_in_use_and_clears_settings(smi: SimulatedGpus) -> None:
    smi(["-pl", "300"])
    status, said = smi(["--gpu-reset"])
    assert (status, said.count("In use by another client")) == (255, 2)
    smi(["-pm", "0"])
    with smi.held():
        assert smi(["-r"])[0] == 255
    assert smi(["-r", "-i", "0"])[1].startswith("GPU 0000FFFF:01:00.0 was successfully reset.")
    first, second = settings_found(smi(["-q", "-x"])[1])
    assert (first["power"]["now"], first["persistence"], second["power"]["now"]) == (400, False, 300)


def test_lost_gpu_cannot_be_reset(smi: SimulatedGpus) -> None:
    smi.kept.write_text(smi.kept.read_text().replace("<total>40960 MiB</total>", "<total>GPU is lost</total>"))
    status, said = smi(["-r"])
    assert status
    assert "Reboot the system to recover this GPU" in said
