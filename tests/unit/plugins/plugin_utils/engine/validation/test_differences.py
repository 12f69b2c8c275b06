"""Tests of the differences between the nodes of a test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import typed
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.job_output_parser import (
    difference_words,
    differences,
    of_nodes,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.planned_tests import judged, planned_test
from report_samples import nccl_text
from validation_samples import job_entry, validation_options

SCRIPT = Path(__file__).parents[6] / "roles/validation/templates/node_facts.sh.j2"
NODES = [f"gpu{number}" for number in range(1, 7)]


def lines(driver: dict[str, str]) -> str:
    return "".join(
        f"# busbar node: {node} {fact}\n"
        for node in NODES
        for fact in ("Kernel=Linux 6.1.0", f"NVIDIA driver={driver.get(node, '570.86.15')}")
    )


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ({}, []),
        (
            {"gpu4": "550.54"},
            ["NVIDIA driver differs between nodes: 550.54 on gpu4; 570.86.15 on the other 5"],
        ),
        (
            {"gpu4": "550.54", "gpu5": "550.54", "gpu6": "535.1"},
            ["NVIDIA driver differs between nodes: 550.54 on gpu[4-5], 535.1 on gpu6; 570.86.15 on gpu[1-3]"],
        ),
    ],
)
def test_differing_nodes_are_named(driver: dict[str, str], words: list[str]) -> None:
    found = differences(of_nodes(lines(driver)))
    assert [difference_words(*each) for each in found.items()] == words


def test_missing_value_of_a_node_is_a_difference() -> None:
    text = lines({}).replace("# busbar node: gpu2 NVIDIA driver=570.86.15\n", "")
    (said,) = [difference_words(*each) for each in differences(of_nodes(text)).items()]
    assert said == "NVIDIA driver differs between nodes: nothing on gpu2; 570.86.15 on the other 5"


def test_difference_is_a_finding_of_the_test() -> None:
    options = typed(validation_options(NODES))
    planned = planned_test(options, "cluster", "cluster", NODES)
    (test,) = judged(
        options, planned, cast("Any", job_entry("cluster", NODES)), lines({"gpu4": "550.54"}) + nccl_text(NODES, 8, 365)
    )
    assert test["verdict"] == "PASS"
    assert "NVIDIA driver differs between nodes: 550.54 on gpu4; 570.86.15 on the other 5" in test["findings"]
    assert test["differences"] == {"NVIDIA driver": {"570.86.15": [*NODES[:3], *NODES[4:]], "550.54": ["gpu4"]}}


def test_job_collects_the_versions_of_each_node(tmp_path: Path) -> None:
    """Run the script with a fake srun that runs its command once per node, and a fake nvidia-smi with eight GPUs."""
    (tmp_path / "srun").write_text(
        '#!/bin/bash\nwhile [ "$1" != bash ]; do shift; done\n'
        'for SLURMD_NODENAME in gpu1 gpu2; do export SLURMD_NODENAME; "$@"; done\n'
    )
    (tmp_path / "nvidia-smi").write_text(
        "#!/bin/bash\n"
        'clock=1980; [ "$SLURMD_NODENAME" = gpu1 ] || clock=1755\n'
        'case "$1" in *vbios*) value=96.00.74.00.01 ;; *) value="$clock MHz, 2619 MHz, 700.00 W" ;; esac\n'
        'for gpu in 0 1 2 3 4 5 6 7; do echo "$value"; done\n'
    )
    for program in tmp_path.iterdir():
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_NNODES": "2"}
    done = subprocess.run(["bash", "-eu", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    found = of_nodes(done.stdout)
    assert list(found) == ["gpu1", "gpu2"]
    assert found["gpu1"]["Kernel"] == f"Linux {os.uname().release}"
    assert found["gpu1"]["GPU firmware"] == "8 x 96.00.74.00.01"
    (said,) = [difference_words(*each) for each in differences(found).items()]
    assert said.startswith("GPU clocks and power limit differs between nodes: 8 x 1755 MHz, 2619 MHz, 700.00 W on gpu2")
    assert said.endswith("; 8 x 1980 MHz, 2619 MHz, 700.00 W on gpu1")
    alone = {**environment, "SLURM_NNODES": "1"}
    assert not subprocess.run(["bash", "-eu", SCRIPT], env=alone, capture_output=True, text=True, check=True).stdout
