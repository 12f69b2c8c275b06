"""Tests with recordings of a real H100: the output is parsed, and a healthy GPU passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.nvidia_smi import parse_query
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.gpu_settings_parse import settings_found
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_profile
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.inspector import inspector_words
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import parse_text
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.ras import ras_words
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.nccl_judge import Expected, judge
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.nvbandwidth_parser import (
    read_nvbandwidth,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.p2p_parser import read_p2p
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.gemm_results import (
    compared,
    known_floor,
    read_products,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.soak_judge import (
    expected_of,
    judge_soak,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.soak_samples import read_soak
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.training import (
    read_training,
)

RECORDINGS = Path(__file__).resolve().parents[2] / "fixtures" / "h100"
NODES = ["gpu1"]
SOAK = {"minutes": 1.6, "interval": 5, "spread": 10, "decay": 5, "kernel_log": False}


def recorded(name: str) -> str:
    """Return the text of a recording."""
    return (RECORDINGS / name).read_text(encoding="utf-8")


def of_ras(name: str) -> list[str]:
    """Return the report lines for a recorded NCCL RAS answer, marked like the job's output."""
    return ras_words("\n".join(f"# busbar ras: {line}" for line in recorded(name).splitlines()))


def run_of(name: str) -> dict[str, Any]:
    """Return the run in an nccl-tests output."""
    (run,) = parse_text(recorded(name))["runs"]
    return run


def test_nvidia_smi_gives_the_same_result_as_xml_and_text() -> None:
    (xml,), (text,) = (parse_query(recorded(name))["gpus"] for name in ("nvidia_smi_q_x.xml", "nvidia_smi_q.txt"))
    assert xml["product_name"] == "NVIDIA H100 80GB HBM3"
    assert (xml["memory_total_mib"], xml["power_limit_w"], xml["pcie_gen_current"]) == (81559, 700.0, 5)
    assert (xml["mig_mode"], xml["ecc_mode"], xml["recovery_action"]) == ("Disabled", "Enabled", "None")
    assert xml["throttle_reasons"] == ["gpu_idle"]
    assert xml == text


def test_power_cap_is_the_only_throttle_reason_under_load() -> None:
    (gpu,) = parse_query(recorded("nvidia_smi_q_x_load.xml"))["gpus"]
    assert gpu["throttle_reasons"] == ["sw_power_cap"]
    assert gpu["throttle_us"]["sw_power_cap"] > 0
    assert gpu["throttle_us"]["hw_therm_slowdown"] == 0


def test_supported_settings_are_read() -> None:
    (card,) = settings_found(recorded("nvidia_smi_q_x.xml"), recorded("boost_slider.txt"))
    assert (card["persistence"], card["ecc"], card["compute_mode"]) == (True, True, "default")
    assert card["power"] == {"now": 700.0, "default": 700.0, "least": 200.0, "most": 700.0}
    assert card["vboost"] == {"now": 0, "most": 4}
    assert sorted(card["supported"]) == [1593, 2619]


def test_healthy_gpu_reaches_the_floors_of_its_profile() -> None:
    known = site_profile("hgx_h100", {})
    assert known
    ranks, said = read_products(recorded("gemm.txt"), NODES, "gpu")
    assert (len(ranks), said) == (1, {})
    assert compared(ranks, {"gpu1": known_floor(known)}, 0.1) == []
    for model in ("gpt", "resnet50"):
        (scale,) = read_training(recorded(f"training_{model}.txt"))
        floor = known["training"]["peak_tflops"] * known["training"][f"{model}_share_floor"]
        assert scale["result"]["tflops_per_rank"] > floor


def test_soak_of_one_gpu_passes() -> None:
    found = judge_soak(read_soak(recorded("soak.txt")), NODES, expected_of(SOAK, 1, "gpu"))
    assert (found.faults, found.gaps, found.notes) == ([], [], [])
    assert "TFLOP/s in the first iterations" in found.result
    assert found.figures is not None
    assert found.figures["turns"] > 4
    # Samples of the idle GPU between two programs are ignored.
    assert found.figures["rows"][0]["lowest_clock_mhz"] > 1000


@pytest.mark.parametrize("model", ["gpt", "resnet50"])
def test_training_result_is_parsed_within_an_incomplete_nccl_line(model: str) -> None:
    text = recorded(f"training_{model}.txt")
    assert not any(line.startswith("busbar-training ") for line in text.splitlines())
    (scale,) = read_training(text)
    assert scale["result"]["model"] == model
    assert scale["result"]["world_size"] == 1


def test_ras_names_the_unresponsive_rank() -> None:
    assert of_ras("ras_running.json") == ["NCCL's RAS reports that all ranks respond and none is behind"]
    (words,) = of_ras("ras_stopped.json")
    assert "rank 1 (GPU 0 of 192.0.2.2) does not answer" in words
    assert any("Rank 1" in words for words in of_ras("ras_stopped.txt"))


def test_ras_names_the_late_rank_in_json_and_text() -> None:
    (words,) = of_ras("ras_behind.json")
    assert "rank 1 (GPU 0 of 192.0.2.2) is behind: started 20 AllReduce" in words
    text = of_ras("ras_behind.txt")
    assert any("Rank 1 has launched up to operation 20" in words for words in text)


def test_inspector_reports_the_slowest_operation() -> None:
    (words,) = inspector_words(recorded("inspector.txt"))
    assert "the slowest AllReduce of 1073741824 B took 289364 us, 3.711 GB/s" in words


@pytest.mark.parametrize("form", ["txt", "json"])
def test_two_ranks_on_one_gpu_are_judged(form: str) -> None:
    run = run_of(f"all_reduce_2_ranks.{form}")
    assert (run["ranks"], run["hosts"], run["outcome"]) == (2, ["gpu1"], "ok")
    answer = judge([run], None, Expected(nodes=1, ranks=2, floor=3.0, hosts=("gpu1",), allow_known_causes=True))
    assert answer["verdict"] == "PASS", answer["reason"]
    assert answer["measured_busbw"] == pytest.approx(3.71, abs=0.005)


@pytest.mark.parametrize("name", ["all_reduce_1_rank", "all_reduce_reduced"])
def test_single_rank_run_is_complete_without_bandwidth(name: str) -> None:
    run = run_of(f"{name}.txt")
    assert run["contradictions"] == []
    answer = judge([run], None, Expected(nodes=1, ranks=1, floor=1.0))
    assert answer["verdict"] == "INCONCLUSIVE"
    assert "a single rank does not communicate" in answer["reason"]


@pytest.mark.parametrize(
    ("name", "words"), [("same_gpu_twice", "Duplicate GPU detected"), ("no_gpu", "no CUDA-capable device is detected")]
)
def test_crash_reason_is_quoted(name: str, words: str) -> None:
    answer = judge([run_of(f"{name}.txt")], None, Expected(nodes=1, ranks=2, floor=1.0))
    assert answer["verdict"] == "INCONCLUSIVE"
    assert words in answer["reason"]


def test_bandwidth_matrices_of_a_node_are_parsed() -> None:
    found = read_p2p(recorded("p2p.txt"))
    assert (found["errors"], found["devices"]) == ([], ["NVIDIA H100 80GB HBM3"])
    assert found["matrices"][0]["values"] == [[2868.78]]
    for form in ("json", "txt"):
        found = read_nvbandwidth(recorded(f"nvbandwidth.{form}"))
        assert (found["errors"], found["wrong"]) == ([], []), form
        assert 45 < found["matrices"][0]["values"][0][0] < 64
