"""Tests of stage rdma_pairs: pairs of nodes, and output of ib_write_bw."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import input_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import next_step
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.rdma_pairs import (
    RdmaPairs,
    Way,
    read_pairs,
)
from executables import executable
from stage_samples import stage_test
from validation_samples import validation_options

ROOT = Path(__file__).parents[7]
TEMPLATE = (ROOT / "roles/validation/templates/job_rdma_pairs.sh.j2").read_text()
NODES = ["gpu1", "gpu2", "gpu3", "gpu4"]
RAILS = [f"mlx5_{number}" for number in range(8)]
OWN: dict[str, Any] = {"script": "x", "seconds": "3", "gbps": "0", "rails": [], "program": "ib_write_bw"}
# The end of published outputs, with an interleaved warning and in MB/s (linux-rdma/perftest issue 273 and others).
PUBLISHED = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Link type       : Ethernet
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0x008a PSN 0xfffb6d RKey 0x238f86 VAddr 0x007dd5a3cfd000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
Conflicting CPU frequency values detected: 1500.000000 != 3300.016000. CPU Frequency is not max.
 65536      560845           0.00               98.02                0.186950
---------------------------------------------------------------------------------------
"""


def told(way: Way, text: str) -> str:
    """Return the output of a client with the prefix that the job adds."""
    return "".join(f"busbar-rdma {way.rail} {way.client} {way.server}: {line}\n" for line in text.splitlines())


def result(gbps: float) -> str:
    """Return the end of an output with this bandwidth."""
    return (
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        f" 1048576    100000           0.00               {gbps:.2f}   \t\t     {gbps * 1e3 / 8 / 1048576:.6f}\n"
    )


def output(changes: dict[Way, str] | None = None, nodes: list[str] = NODES, rails: list[str] = RAILS) -> str:
    """Return the output of all clients, with some changed."""
    ways = [
        Way(rail, *ends)
        for rail in rails
        for one, two in zip(nodes, nodes[1:] + nodes[:1])
        for ends in ((one, two), (two, one))
    ]
    return "".join(told(way, (changes or {}).get(way, result(390.0))) for way in dict.fromkeys(ways))


def judged(text: str, nodes: list[str] = NODES, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any option
    """Return the test of the stage in a report."""
    return stage_test("rdma_pairs", OWN | changes, nodes, text)


def test_published_outputs_are_read() -> None:
    way = Way("mlx5_0", "gpu1", "gpu2")
    assert read_pairs(told(way, PUBLISHED)) == {way: {"gbps": 98.02, "message": ""}}
    older = PUBLISHED.replace("[Gb/sec]", "[MB/sec]").replace("98.02 ", "11685.37")
    assert read_pairs(told(way, older))[way]["gbps"] == pytest.approx(98.02, rel=1e-3)
    newer = PUBLISHED.replace("[Gb/sec]", "[MiB/sec]").replace("98.02 ", "11685.37")
    assert read_pairs(told(way, newer))[way]["gbps"] == pytest.approx(98.02, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PUBLISHED.replace("98.02", "9.80"), "the message rate contradicts the bandwidth: 65536 560845 0.00 9.80"),
        (PUBLISHED.replace("98.02", "nan"), "0 results"),
        (PUBLISHED.replace(" 65536 ", " #65536 "), "0 results"),
        (PUBLISHED + PUBLISHED, "2 results"),
        (PUBLISHED.replace("#bytes", "bytes"), "0 results"),
        (" Couldn't connect to gpu2:18515\n", "Couldn't connect to gpu2:18515"),
        ("Unable to open the device\n", "Unable to open the device"),
        ("", "0 results"),
    ],
)
def test_contradictory_or_missing_values_are_not_used(text: str, words: str) -> None:
    way = Way("mlx5_0", "gpu1", "gpu2")
    found = read_pairs(told(way, text) or "busbar-rdma mlx5_0 gpu1 gpu2: \n")[way]
    assert found["gbps"] is None
    assert found["message"].startswith(words)


@pytest.mark.parametrize("key", ["message", "said"])
def test_reports_of_earlier_releases_use_another_message_key(key: str) -> None:
    row = {"rail": "mlx5_0", "client": "gpu1", "server": "gpu2", "gbps": None, key: "0 results"}
    read = RdmaPairs.figures.read({"gbps_floor": 360, "rows": [row]}, str)
    assert read is not None
    assert read["rows"][0]["message"] == "0 results"


def test_all_rails_in_both_directions_pass() -> None:
    test = judged(output())
    assert (test["verdict"], test["reason"]) == ("PASS", "64 directions, 390 to 390 Gb/s")
    assert test["rdma_pairs"]["gbps_floor"] == 360
    assert test["source"] == "computed: 0.9 of the rate of the profile's NICs"


def test_node_that_is_slow_with_both_neighbours_is_blamed() -> None:
    slow = {Way("mlx5_3", "gpu2", other): result(190.0) for other in ("gpu1", "gpu3")}
    test = judged(output(slow))
    assert (test["verdict"], [item["node"] for item in test["blamed"]]) == ("FAIL", ["gpu2"])
    assert test["reason"] == "gpu2: mlx5_3: sends at most 190 Gb/s with 2 nodes, floor 360"
    slow = {Way("mlx5_3", other, "gpu2"): result(190.0) for other in ("gpu1", "gpu3")}
    assert judged(output(slow))["reason"] == "gpu2: mlx5_3: receives at most 190 Gb/s with 2 nodes, floor 360"


def test_single_slow_direction_blames_no_node() -> None:
    test = judged(output({Way("mlx5_3", "gpu2", "gpu3"): result(190.0)}))
    assert (test["verdict"], test["blamed"]) == ("FAIL", [])
    assert test["reason"] == "mlx5_3: gpu2 to gpu3 190 Gb/s, floor 360"
    two = ["gpu1", "gpu2"]
    test = judged(output({Way("mlx5_3", "gpu1", "gpu2"): result(190.0)}, two), two)
    assert (test["verdict"], test["blamed"]) == ("FAIL", [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "0 rail(s) reported results (expected 8)"),
        (output(rails=RAILS[1:]), "7 rail(s) reported results (expected 8)"),
        (output({Way("mlx5_3", "gpu2", "gpu3"): " Unable to init\n"}), "mlx5_3: gpu2 to gpu3: Unable to init"),
        (output(nodes=NODES[:3]), "mlx5_0: gpu4 sent nothing"),
    ],
)
def test_missing_measurement_is_inconclusive(text: str, words: str) -> None:
    test = judged(text)
    assert (test["verdict"], test["reason"]) == ("INCONCLUSIVE", words)


def test_floor_and_rails_options_are_used() -> None:
    assert judged(output(rails=["a"]), gbps="395", rails=["a"])["verdict"] == "FAIL"
    assert judged(output(rails=["a"]), gbps="380", rails=["a"])["verdict"] == "PASS"
    asked = validation_options(NODES, stages=["rdma_pairs"], rdma_pairs=OWN | {"rails": ["a b"]})
    assert input_problems(asked) == [
        "validation_rdma_pairs_rails: must be a list of names of NICs, such as [mlx5_0, mlx5_1]"
    ]
    alone = validation_options(NODES[:1], stages=["rdma_pairs"], rdma_pairs=OWN)
    assert next_step(alone)["skipped"] == {"rdma_pairs": "1 node(s) passed the earlier stages (required: 2)"}


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7])
def test_job_measures_each_pair_of_neighbours_in_both_directions(tmp_path: Path, count: int) -> None:
    """Run each node's task with a fake ib_write_bw that connects through files: servers wait, clients find them."""
    task = re.search(r"task='(.*?)'\nexport", TEMPLATE, re.DOTALL)
    assert task
    script = re.sub(r"\{\{.*?\}\}", "9", task[1])
    nodes = [f"n{number}" for number in range(count)]
    program = tmp_path / "ib_write_bw"
    # The last argument of a client is its server; a server has no such argument and leaves a file.
    executable(
        program,
        f"""#!/bin/bash
case "${{*: -1}}" in
n*) echo "wrote to ${{*: -1}}" ;;
*) echo "$SLURM_NODEID" >> {tmp_path}/servers ;;
esac
""",
    )
    phases = [0] if count == 2 else [0, 1] if count % 2 == 0 else [0, 1, 2]
    ways = []
    for phase in phases:
        for back in (0, 1):
            (tmp_path / "servers").write_text("")
            here = []
            for number in range(count):
                words = ["bash", "-c", script, "busbar", "r", str(phase), str(back), "1", str(program)]
                given = {**os.environ, "BUSBAR_NODES": " ".join(nodes), "SLURM_NODEID": str(number)}
                done = subprocess.run(words, check=True, capture_output=True, text=True, env=given)
                here += re.findall(r"^busbar-rdma r (\S+) (\S+): wrote to (\S+)$", done.stdout, re.MULTILINE)
            servers = {f"n{number}" for number in (tmp_path / "servers").read_text().split()}
            assert {server for _client, server, _told in here} == servers
            assert all(server == named for _client, server, named in here)
            ways += [(client, server) for client, server, _told in here]
    expected = {(nodes[number], nodes[(number + 1) % count]) for number in range(count)}
    expected |= {(two, one) for one, two in expected}
    assert sorted(ways) == sorted(expected)
