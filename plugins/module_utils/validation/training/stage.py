# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Plans the training as one job over all nodes, one scale after the other, and makes the report's entry of it."""

from __future__ import annotations

from typing import Any

from ...catalogue.ceilings import nic_rate
from ..check_entry import check_entry
from ..tests import candidates
from .check import Asked, judge_training
from .output import read_training

__all__ = ["TRAINING", "judged_training", "planned_training", "scales_of", "training_problems"]

TRAINING = "training"
_PAIR = 2


def training_problems(options: dict[str, Any]) -> list[str]:
    """Return what is wrong with the options of the stage, each with its remedy; an empty list when nothing is.

    Args:
        options: stages, and training: steps, batch, hidden, layers (whole numbers), efficiency (a share of 1) and rate
            (samples/s), 0 for the profile's.
    """
    if TRAINING not in options["stages"]:
        return []
    own = options[TRAINING]
    problems = [
        f"validation_training_{key}: must be {least} or more"
        for key, least in (("steps", 10), ("batch", 1), ("hidden", 0), ("layers", 1), ("rate", 0))
        if float(own[key]) < least
    ]
    if not 0 <= float(own["efficiency"]) <= 1:
        problems.append(f"validation_training_efficiency: {own['efficiency']} is no share between 0 and 1")
    return problems


def scales_of(nodes: int, ranks: int) -> list[tuple[int, int]]:
    """Return nodes and ranks per node of each run: one rank, a whole node, 2, 4, 8, … and all nodes."""
    found = [(1, 1), (1, ranks)]
    count = _PAIR
    while count < nodes:
        found.append((count, ranks))
        count *= 2
    found.append((nodes, ranks))
    return list(dict.fromkeys(found))


def _ranks_per_node(options: dict[str, Any], nodes: list[str]) -> int:
    """Return one rank per GPU, of the node with the fewest; on CPUs as many as asked for."""
    if options["backend"] == "mpi":
        return max(1, int(options["mpi_ranks_per_node"]))
    profiles = [options["catalogue"].get(str(options["hardware"].get(node) or "")) or {} for node in nodes]
    return max(1, min((int((profile.get("gpu") or {}).get("count") or 0) for profile in profiles), default=1))


def planned_training(options: dict[str, Any], nodes: list[str]) -> dict[str, Any]:
    """Return the test of all nodes, as validation.planned_test gives a test.

    Args:
        options: as for training_problems, and training.script, backend, partners, pool, hardware, catalogue,
            mpi_ranks_per_node, output and sbatch_arguments.
        nodes: the nodes to be tested; one alone is given a partner where partners are asked for.
    """
    partners = int(options["partners"]) if len(nodes) < _PAIR else 0
    others = candidates(options, nodes) if partners else []
    ranks = _ranks_per_node(options, nodes + others)
    arguments = [f"--ntasks-per-node={ranks}", f"--export=ALL,BUSBAR_RANKS_PER_NODE={ranks}"]
    if options["backend"] == "nccl":
        arguments.append(f"--gpus-per-node={ranks}")
    job = {
        "name": TRAINING,
        "nodes": nodes,
        "candidates": others,
        "partners": partners,
        "minimum": 1,
        "script": options[TRAINING]["script"],
        "arguments": [*arguments, *(str(item) for item in options["sbatch_arguments"])],
        "output": options["output"],
    }
    return {"name": TRAINING, "stage": TRAINING, "kind": TRAINING, "ranks_per_node": ranks, "job": job}


def _asked(options: dict[str, Any], nodes: list[str], ranks: int) -> Asked:
    """Return what the training is judged by: the operator's floors, else the weakest of the nodes' hardware.

    One node of unknown hardware makes the floor unknown: no other's can be asked of it.
    """
    own = options[TRAINING]
    profiles = [options["catalogue"].get(str(options["hardware"].get(node) or "")) or {} for node in nodes]
    declared = [profile.get(TRAINING) or {} for profile in profiles]
    floors: dict[str, float | None] = {}
    sources: dict[str, None] = {}
    for key, profile_key in (("efficiency", "efficiency_floor"), ("rate", "samples_per_second_floor")):
        known = [float(item[profile_key]) for item in declared if item.get(profile_key)]
        given = float(own[key] or 0)
        floors[key] = given or (min(known) if known and len(known) == len(declared) else None)
        if floors[key]:
            sources |= {"the operator": None} if given else {str(item["source"]): None for item in declared}
    wires = [nic_rate(profile.get("nics") or []) for profile in profiles]
    return Asked(
        scales=scales_of(len(nodes), ranks),
        backend="gloo" if options["backend"] == "mpi" else "nccl",
        efficiency=floors["efficiency"],
        rate=floors["rate"],
        source="; ".join(sources),
        wire=min(wires, default=0.0) or None,
    )


def judged_training(
    options: dict[str, Any], planned: dict[str, Any], entry: dict[str, Any], text: str | None
) -> dict[str, Any]:
    """Return the report's entry of the training: the keys of those of validation.judged, and training.

    Args:
        options: as for planned_training.
        planned: what planned_training returned.
        entry: what the module slurm_tests returned for it.
        text: the output of the job, None where there is none.
    """
    nodes = entry["nodes"] + entry["partners"]
    ranks = planned["ranks_per_node"]
    answer = judge_training(read_training(text or ""), _asked(options, nodes, ranks))
    hardware = sorted({str(options["hardware"].get(node) or "") for node in nodes})
    named = ", ".join(filter(None, hardware))
    return check_entry(planned, entry, text, answer, hardware=named, ranks=ranks * len(nodes))
