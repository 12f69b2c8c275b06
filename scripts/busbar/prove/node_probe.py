"""Reads the hardware and software of an allocation's nodes in an initial job step."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_from_machine import (
    best_profile,
    description_text,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_for_slurm, fold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.job_output_parser import container_fault

from busbar.errors import UsageError
from busbar.node_hardware import HARDWARE, Node, nodes_of, profile_of
from busbar.prove.slurm import ask, ask_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from busbar.prove.slurm import Allocation

_STEP_S = 180
_UNKNOWN_NICS = [{"count": 1, "gbps": 10_000, "rdma": False}]
# Common folders of nccl-tests: packages, cloud images, HPC-X, and builds as described in its README.
_NCCL_TESTS_FOLDERS = (
    *("/usr/local/bin", "/usr/bin", "/opt/nccl-tests/build", "/opt/nccl_tests/build", "/opt/nccl-tests/bin"),
    *("/usr/local/nccl-tests/build", "/usr/local/cuda/efa/test-cuda-*", "/opt/hpcx/nccl_rdma_sharp_plugin/bin"),
    *("/opt/microsoft/nccl-tests", "$HOME/nccl-tests/build", "$HOME/nccl_tests/build"),
)
_PROBE = (
    HARDWARE
    + r"""for python in $(type -ap python3) /usr/bin/python3; do
  "$python" -c "import mpi4py, numpy" 2>/dev/null && echo "$python" | section python
done
for place in PLACES; do
  [ ! -x "$place/all_reduce_perf" ] || echo "$place/all_reduce_perf" | section binary
done
type -ap all_reduce_perf | section binary
timeout 60 bash -lc 'command -v module >/dev/null && module -t avail' 2>&1 | grep -iE 'nccl[-_]?tests' | section module
for program in apptainer singularity; do command -v "$program"; done | section apptainer
echo end | section end
"""
)
# Prints the path of all_reduce_perf in an image, or nothing.
_SEARCH = """
command -v all_reduce_perf && exit
for place in PLACES; do [ ! -x "$place/all_reduce_perf" ] || { echo "$place/all_reduce_perf" && exit; }; done
"""


class Programs(NamedTuple):
    """The programs of the collectives: a command, its Pyxis image, and the setup commands of a script."""

    command: list[str]
    image: str = ""
    setup: str = ""


def run_step(allocation: Allocation, nodes: list[str], command: list[str], *more: str) -> tuple[int, str, str]:
    """Run a command once on each node and return exit code, output and error."""
    gpus = min((allocation.gpus.get(node, 0) for node in nodes), default=0)
    words = [
        *("srun", f"--jobid={allocation.job}", "--overlap", f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}"),
        *("--ntasks-per-node=1", f"--nodelist={fold_for_slurm(nodes)}", "--mem=0", "--mpi=none", "--cpu-bind=none"),
        *("--input=none", "--chdir=/", "--job-name=busbar-probe", f"--time={_STEP_S // 60}"),
        *([f"--gpus-per-node={gpus}"] if gpus else []),
        *more,
    ]
    return ask_lines(*words, *command, limit=_STEP_S)


def read_nodes(allocation: Allocation, binary: str) -> dict[str, Node]:
    """Return the output of each node of the allocation; nodes without output are omitted.

    Args:
        allocation: the running allocation.
        binary: path of an additional program to look for.
    """
    places = " ".join([*_NCCL_TESTS_FOLDERS, *([shlex.quote(str(Path(binary).parent))] if binary else [])])
    _code, out, err = run_step(allocation, allocation.nodes, ["bash", "-c", _PROBE.replace("PLACES", places)])
    found = nodes_of(out)
    nodes = {name: found[name] for name in allocation.nodes if name in found and found[name].lines("end")}
    if not nodes:
        reason = " ".join(err.split())[:500] or "the nodes returned no output"
        message = f"job {allocation.job}: the job step that reads the hardware failed: {reason}"
        raise UsageError(message)
    return nodes


def _fits(known: Mapping[str, Any], found: Mapping[str, Any], keys: set[str]) -> bool:
    """Return whether a machine has the GPUs of a profile, and at least its NICs.

    Additional NICs are allowed, because they serve storage and management.
    """
    if any(key.startswith("gpu.") for key in keys):
        return False
    rates = [(float(nic["gbps"]), bool(nic["rdma"]), int(nic["count"])) for nic in found["nics"]]
    return all(
        any(rate >= nic["gbps"] and rdma >= nic["rdma"] and count >= nic["count"] for rate, rdma, count in rates)
        for nic in known["nics"]
    )


def matched(nodes: Mapping[str, Node], catalogue: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any], str]:
    """Return the profile of each node by name, the catalogue with new profiles, and the new profiles as YAML."""
    machines = [(name, *profile_of(node)) for name, node in nodes.items()]
    hardware: dict[str, str] = {}
    unmatched: list[tuple[str, dict[str, Any], list[str]]] = []
    own: dict[str, Any] = {}
    for name, profile, notes in machines:
        known, differences = best_profile(catalogue, profile)
        if known is not None and _fits(catalogue[known], profile, {key for key, _, _ in differences}):
            hardware[name] = known
            continue
        unmatched.append((name, profile, notes))
        if not profile.get("gpu"):
            continue
        if not profile["nics"][0]["rdma"]:
            # The rate of an Ethernet NIC is uncertain, so the profile must not limit the bandwidth.
            profile = {**profile, "nics": _UNKNOWN_NICS}  # noqa: PLW2901
        label = next((key for key, value in own.items() if value == profile), f"detected-{len(own) + 1}")
        own[label] = profile
        hardware[name] = label
    return hardware, {**catalogue, **own}, description_text(unmatched, catalogue)


def found_python(nodes: Mapping[str, Node]) -> str:
    """Return a Python interpreter that has MPI on all nodes.

    Raises:
        UsageError: no such interpreter exists.
    """
    first, *others = (node.lines("python") for node in nodes.values())
    common = [path for path in first if all(path in paths for paths in others)]
    if common:
        return common[0]
    lacking = sorted(name for name, node in nodes.items() if not node.lines("python")) or sorted(nodes)
    message = (
        f"{fold_hosts(lacking)}: --backend mpi needs Python 3 with mpi4py and numpy, and an MPI library: load the "
        "module of your site that has them, or ask the admin for python3-mpi4py and python3-numpy on the nodes"
    )
    raise UsageError(message)


def found_binary(nodes: Mapping[str, Node], binary: str, say: Any) -> Programs:  # noqa: ANN401 - a function
    """Return the nccl-tests programs on the nodes.

    Raises:
        UsageError: a node lacks nccl-tests.
    """
    first = next(iter(nodes.values()))
    paths = [path for path in first.lines("binary") if all(path in node.lines("binary") for node in nodes.values())]
    if binary:
        if binary in paths:
            return Programs([binary])
        message = f"--binary: {binary} is not an executable on all of {fold_hosts(nodes)}: use the path on the nodes"
        raise UsageError(message)
    modules = [line.strip().partition("(")[0] for line in first.lines("module")]
    say(f"nccl-tests: searched PATH, {', '.join(_NCCL_TESTS_FOLDERS)}, and the modules of {first.name}")
    if paths:
        say(f"nccl-tests: {paths[0]}")
        return Programs([paths[0]])
    if modules:
        say(f"nccl-tests: module {modules[-1]}")
        return Programs(["all_reduce_perf"], setup=f"module load {modules[-1]}")
    message = "nccl-tests was not found on the nodes: set --binary PATH or --image IMAGE"
    raise UsageError(message)


def found_image(allocation: Allocation, nodes: Mapping[str, Node], image: str) -> Programs:
    """Return the nccl-tests programs in an image, run by Pyxis if srun supports it, otherwise by Apptainer.

    Raises:
        UsageError: neither is available, or the image cannot be pulled or lacks nccl-tests.
    """
    first = allocation.nodes[:1]
    _code, helped, _err = ask("srun", "--help")
    # $HOME may differ in the image.
    places = " ".join(place for place in _NCCL_TESTS_FOLDERS if not place.startswith("$"))
    look = ["sh", "-c", _SEARCH.replace("PLACES", places)]
    if "--container-image" in helped:
        words: list[str] = []
        code, out, err = run_step(allocation, first, look, f"--container-image={image}")
    else:
        runtime = next(iter(nodes[first[0]].lines("apptainer")), "") if first[0] in nodes else ""
        if not runtime:
            message = "--image: srun has no --container-image (Pyxis) and the nodes have no Apptainer: use --binary"
            raise UsageError(message)
        words = [runtime, "exec", "--nv", image]
        code, out, err = run_step(allocation, first, [*words, *look])
    if code:
        reason = container_fault(err) or " ".join(err.split())[:600] or f"srun exited with code {code}"
        message = f"--image: {image} cannot be used on {first[0]}: {reason.removeprefix(f'{first[0]}: ')}"
        raise UsageError(message)
    path = out.strip().rpartition("\n")[2]
    if not path.startswith("/"):
        message = f"--image: {image} has no all_reduce_perf in PATH, {places.replace(' ', ', ')}"
        raise UsageError(message)
    return Programs([*words, path], image="" if words else image)
