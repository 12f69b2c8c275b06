"""Create a hardware profile from the data of a machine, and find the most similar known profile."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from ....module_utils.hardware.gpu_sockets import found_sockets
from ....module_utils.hardware.hardware_profile_check import model_name
from ....module_utils.hardware.nvidia_smi_links import nominal_link_gbs
from ....module_utils.nvidia.driver_choice import GENERATIONS, generation_of_architecture, generation_of_model
from ..common.hostlist import fold_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Weights of the differences when choosing the most similar profile.
_WEIGHTS = {"gpu.model": 100, "gpu.count": 50, "gpu.nvlink_gbs": 20, "nics": 10}
_MEMORY_SHARE = 0.05
_UNKNOWN_GBPS = 1
_FILL_IN = f"generation:  # fill in: {', '.join(GENERATIONS)}"
_CPU = ("sockets", "cores_per_socket", "threads_per_core")


class Kind(NamedTuple):
    """Machines with the same hardware.

    Attributes:
        name: an unused name for their profile.
        profile: their hardware profile.
        hosts: their names.
        known: name of the most similar known profile; None if no profile has these GPUs.
        differences: key, declared and found value of each difference from that profile.
        notes: notes for the admin.
    """

    name: str
    profile: dict[str, Any]
    hosts: list[str]
    known: str | None
    differences: list[tuple[str, Any, Any]]
    notes: list[str]


def slurm_type(model: str) -> str:
    """Return a short Slurm name for a GPU model: 'h100' for 'NVIDIA H100 80GB HBM3', 'rtx3060' for 'GeForce RTX 3060'.

    It starts with a letter, because Slurm reads 6000 in --gpus=6000 as a count.
    """
    plain = re.sub(r"\b\d+gb\b", " ", model_name(model))
    match = re.search(r"\b([rg]tx)?( pro)?\s*\b([a-z]{0,2}\d{2,4}[a-z]{0,2})\b", plain)
    if match is None:
        return re.sub(r"[^a-z0-9]+", "_", plain).strip("_") or "gpu"
    short = "".join(part.strip() for part in match.groups() if part)
    return short if short[0].isalpha() else f"{re.sub(r'[^a-z]', '', plain[: match.start()]) or 'gpu'}{short}"


def describe_machine(node: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the profile of a machine in the format of the catalogue, without floors, which require a measurement.

    Args:
        node: the result of `node_info`.
        facts: the `devices` of `node_info`.
    """
    # Round memory down to three digits: Slurm drains a node with less than declared, and a kernel update may reduce it.
    return {
        "description": _title(node, facts),
        **{key: int(node[key]) for key in _CPU},
        "memory_mb": _round_down(int(node["memory_mb"])),
        **(
            {"gpu": _gpu(facts["gpus"], int(node["memory_mb"])) | _near(facts, int(node["sockets"]))}
            if facts["gpus"]
            else {}
        ),
        "nics": _nics(facts),
        "busbw": {},
    }


def _round_down(value: int) -> int:
    digits = max(0, len(str(value)) - 3)
    return int(value // 10**digits * 10**digits)


def _title(node: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    processors = f"{node['sockets']} x {node['cores_per_socket']} cores"
    gpus = facts["gpus"]
    return f"{len(gpus)} x {gpus[0]['product_name'] or 'unknown GPU'}, {processors}" if gpus else processors


def _gpu(gpus: Sequence[Mapping[str, Any]], memory_mb: int) -> dict[str, Any]:
    """Return the GPU section of the profile for the first GPU; the preflight reports different models.

    A GPU of unknown memory size, such as a GB10, shares the memory of the host; machine_notes() reports that.
    """
    first = gpus[0]
    model = str(first["product_name"] or "unknown GPU")
    links = first.get("nvlink") or {}
    rates = [nominal_link_gbs(rate) for rate in links.get("speeds_gb_s") or []]
    last = len(gpus) - 1
    known = generation_of_model(model)
    return {
        "model": model,
        # The driver depends on the generation, and the preflight rejects an unknown generation.
        **({} if known else {"generation": generation_of_architecture(str(first["architecture"] or ""))}),
        "count": len(gpus),
        "slurm_type": slurm_type(model),
        "device_files": f"/dev/nvidia[0-{last}]" if last else "/dev/nvidia0",
        "memory_mb": int(first["memory_total_mib"] or _round_down(memory_mb)),
        "nvlink_gbs": int(links["links_active"] * max(rates)) if rates else 0,
    }


def _near(facts: Mapping[str, Any], sockets: int) -> dict[str, Any]:
    """Return the CPU socket of each GPU; empty if the machine has one socket, or if a socket is unknown."""
    found = found_sockets(facts, sockets) if sockets > 1 else []
    return {"cpu_sockets": found} if len(found) == len(facts["gpus"]) else {}


def _nics(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the active RDMA ports or else the fastest Ethernet interface."""
    rates = [port["rate_gbps"] for port in facts["rdma_ports"] if port["active"] and port["rate_gbps"]]
    if rates:
        return [{"count": rates.count(max(rates)), "gbps": _plain(max(rates)), "rdma": True}]
    speeds = [each["rate_gbps"] for each in facts["network_interfaces"] if each["up"] and each["rate_gbps"]]
    return [{"count": 1, "gbps": _plain(max(speeds, default=_UNKNOWN_GBPS)), "rdma": False}]


def _plain(number: float) -> float:
    return int(number) if number == int(number) else number


def profile_differences(known: Mapping[str, Any], found: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the key, the declared and the found value of each difference between a known and a machine's profile."""
    result = [(key, known.get(key), found[key]) for key in _CPU if known.get(key) != found[key]]
    declared = int(known.get("memory_mb") or 0)
    if declared > found["memory_mb"] or declared < (1 - 10 * _MEMORY_SHARE) * found["memory_mb"]:
        result.append(("memory_mb", declared, found["memory_mb"]))
    ours, theirs = found.get("gpu") or {}, known.get("gpu") or {}
    result += [
        (f"gpu.{key}", theirs.get(key), ours.get(key))
        for key in ("model", "count", "memory_mb", "nvlink_gbs")
        if not _same(key, theirs.get(key), ours.get(key))
    ]
    if _speed(known.get("nics")) != _speed(found["nics"]):
        result.append(("nics", _speed_text(known.get("nics")), _speed_text(found["nics"])))
    return result


def _same(key: str, declared: Any, found: Any) -> bool:  # noqa: ANN401 - any value of a profile
    if declared is None or found is None:
        return declared is found
    if key == "model":
        return model_name(str(declared)) == model_name(str(found))
    if key == "memory_mb":
        return bool(abs(float(declared) - found) <= _MEMORY_SHARE * float(declared))
    return bool(declared == found)


def _speed(nics: Any) -> list[tuple[float, int, bool]]:  # noqa: ANN401 - an admin's entry may have any type
    return sorted((float(nic["gbps"]), int(nic["count"]), bool(nic["rdma"])) for nic in nics or [])


def _speed_text(nics: Any) -> str:  # noqa: ANN401 - an admin's entry may have any type
    parts = (f"{count} x {rate:g} Gb/s{' RDMA' if rdma else ''}" for rate, count, rdma in _speed(nics))
    return " + ".join(parts) or "none"


def best_profile(
    catalogue: Mapping[str, Mapping[str, Any]], found: Mapping[str, Any]
) -> tuple[str | None, list[tuple[str, Any, Any]]]:
    """Return the name of the most similar known profile and its differences; None if no profile has these GPUs."""
    choices = []
    for name, known in catalogue.items():
        differences = profile_differences(known, found)
        keys = {key for key, _, _ in differences}
        if "gpu.model" not in keys:
            choices.append((sum(_WEIGHTS.get(key, 1) for key in keys), name, differences))
    if not choices:
        return None, []
    _, name, differences = min(choices)
    return name, differences


def machine_notes(facts: Mapping[str, Any], slurmd: str) -> list[str]:
    """Return notes for the admin about a profile from describe_machine().

    Args:
        facts: the `devices` of `node_info`.
        slurmd: output of `slurmd -C`, empty without Slurm.
    """
    line = next((line.strip() for line in slurmd.splitlines() if line.startswith("NodeName=")), "")
    notes = [f"slurmd -C: {line or 'Slurm is not installed yet'}"]
    if facts["source"] == "pci" and facts["gpus"]:
        notes.append("gpu.model and gpu.memory_mb are guesses, because no driver is loaded")
    elif any(gpu["lost"] for gpu in facts["gpus"]):
        notes.append("a GPU is lost: describe the machine again after the repair")
    elif facts["gpus"] and not facts["gpus"][0]["memory_total_mib"]:
        notes.append("gpu.memory_mb is a guess (the host's memory): nvidia-smi reports no GPU memory size")
    active = [port for port in facts["rdma_ports"] if port["active"] and port["rate_gbps"]]
    if not active and not any(each["up"] and each["rate_gbps"] for each in facts["network_interfaces"]):
        notes.append("nics is a guess: no network interface reports its speed")
    return notes


def machine_kinds(
    machines: Iterable[tuple[str, Mapping[str, Any], Sequence[str]]], catalogue: Mapping[str, Mapping[str, Any]]
) -> list[Kind]:
    """Return the kinds of machines.

    Args:
        machines: host name, profile from describe_machine(), and its notes.
        catalogue: the known profiles.
    """
    alike: dict[str, list[tuple[str, Mapping[str, Any], Sequence[str]]]] = {}
    for machine in machines:
        alike.setdefault(json.dumps(machine[1], sort_keys=True), []).append(machine)
    kinds: list[Kind] = []
    for found in alike.values():
        profile = dict(found[0][1])
        known, differences = best_profile(catalogue, profile)
        if known and profile.get("gpu"):
            profile["gpu"] = {**profile["gpu"], "slurm_type": catalogue[known]["gpu"]["slurm_type"]}
        name = _name(profile, {*catalogue, *(kind.name for kind in kinds)})
        notes = dict.fromkeys(re.sub(r"NodeName=\S+ ", "", note) for _, _, notes in found for note in notes)
        kinds.append(Kind(name, profile, [host for host, _, _ in found], known, differences, list(notes)))
    return kinds


def description_text(
    machines: Iterable[tuple[str, Mapping[str, Any], Sequence[str]]], catalogue: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return YAML for `hardware_profiles_extra`: one entry per kind of machine, with notes as comments.

    Args:
        machines: host name, profile from describe_machine(), and its notes.
        catalogue: the known profiles.
    """
    lines: list[str] = []
    for kind in machine_kinds(machines, catalogue):
        comments = [fold_hosts(kind.hosts), *_fit(kind.known, kind.differences, bool(kind.profile.get("gpu")))]
        comments += [*kind.notes, "busbw is not measured: run busbar validate, then set floors with their source"]
        lines += [f"  # {comment}" for comment in comments]
        # The YAML library cannot write the tagged strings of Ansible; the JSON round trip removes the tags.
        text = yaml.safe_dump(json.loads(json.dumps({kind.name: kind.profile})), sort_keys=False, width=110)
        lines += [f"  {line}" for line in text.replace("generation: null", _FILL_IN).splitlines()]
    return "\n".join(["hardware_profiles_extra:", *lines]) if lines else ""


def _fit(known: str | None, differences: Sequence[tuple[str, Any, Any]], has_gpus: bool) -> list[str]:  # noqa: FBT001
    """Return a description of how well the most similar profile matches."""
    if known is None:
        return ["no known profile has these GPUs" if has_gpus else "the machine has no GPUs, but all known profiles do"]
    if not differences:
        return [f"matches the known profile {known}: set hardware: {known} instead of this entry"]
    lines = [f"  {key}: found {found} ({known}: {declared})" for key, declared, found in differences]
    return [f"nearest known profile: {known}, with these differences:", *lines]


def _name(profile: Mapping[str, Any], taken: set[str]) -> str:
    gpu = profile.get("gpu")
    cores = profile["sockets"] * profile["cores_per_socket"]
    base = f"{gpu['slurm_type']}x{gpu['count']}" if gpu else f"cpu{cores}"
    names = (base if number == 1 else f"{base}_{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)
