"""Check MIG layouts against the profiles that a GPU supports.

Names, sizes and counts of the profiles are from NVIDIA's MIG User Guide, "Supported MIG Profiles" (release 580 and
610); possible placements are from `nvidia-smi mig -lgipp`: of eight memory slices a `1g` takes one of the first seven,
a `1g` with double memory takes two from an even start, a `2g` two from 0, 2 or 4, a `3g` four from 0 or 4, a `4g` the
first four and a `7g` all. GPUs with four slices (A30, RTX PRO) count in quarters. The profiles of GB200, GB300 and B300
are from NVIDIA's mig-parted configuration; drivers of branch 610 round some of them differently.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "Profile",
    "device_name",
    "divided",
    "gpu_instances",
    "gpu_layouts",
    "gres_counts",
    "layout_counts",
    "layout_problems",
    "mig_geometry",
    "place",
    "slurm_type",
]

_KEYS = {"profile", "count", "gpus", "slurm_type"}
_EIGHTHS = 8


class Profile(NamedTuple):
    """A GPU instance profile: possible start slices, number of memory slices, maximum number of instances."""

    starts: tuple[int, ...]
    size: int
    most: int


class Geometry(NamedTuple):
    """The MIG profiles of a GPU model."""

    name: str
    profiles: dict[str, Profile]


def _sevenths(names: str) -> dict[str, Profile]:
    """Return the profiles of a GPU with seven compute and eight memory slices, given six names by size."""
    small, double, two, three, four, whole = names.split()
    return {
        small: Profile(tuple(range(7)), 1, 7),
        f"{small}+me": Profile(tuple(range(7)), 1, 1),
        double: Profile((0, 2, 4, 6), 2, 4),
        two: Profile((0, 2, 4), 2, 3),
        three: Profile((0, 4), 4, 2),
        four: Profile((0,), 4, 1),
        whole: Profile((0,), _EIGHTHS, 1),
    }


def _quarters(names: str, *suffixes: str) -> dict[str, Profile]:
    """Return the MIG profiles of a GPU with four slices. `names` has one name per size; a suffix marks a variant."""
    small, half, whole = names.split()
    found = {whole: Profile((0,), 4, 1)}
    for suffix in ("", *suffixes):
        found[f"{small}{suffix}"] = Profile((0, 1, 2, 3), 1, 4)
        found[f"{half}{suffix}"] = Profile((0, 2), 2, 2)
    found[f"{small}+me"] = Profile((0, 1, 2, 3), 1, 1)
    return found


_H100_80 = _sevenths("1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb")
# Word in the model name, minimum and maximum memory in MiB, name in messages, profiles.
_TABLE: tuple[tuple[str, int, int, str, dict[str, Profile]], ...] = (
    ("A30", 20000, 26000, "A30", {**_quarters("1g.6gb 2g.12gb 4g.24gb"), "2g.12gb+me": Profile((0, 2), 2, 1)}),
    ("A100", 36000, 45000, "A100 40 GB", _sevenths("1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb")),
    ("A100", 75000, 85000, "A100 80 GB", _H100_80),
    ("A800", 75000, 85000, "A800 80 GB", _H100_80),
    ("H100", 75000, 85000, "H100 80 GB", _H100_80),
    ("H800", 75000, 85000, "H800 80 GB", _H100_80),
    ("H100", 93000, 96500, "H100 94 GB", _sevenths("1g.12gb 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb")),
    ("H100", 96501, 99000, "H100 96 GB", _sevenths("1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb")),
    ("GH200", 94000, 99000, "GH200 96 GB", _sevenths("1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb")),
    ("H200", 138000, 146000, "H200", _sevenths("1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb")),
    ("B200", 178000, 188000, "B200", _sevenths("1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb")),
    ("GB200", 184000, 194000, "GB200", _sevenths("1g.23gb 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb")),
    ("GB300", 268000, 295000, "GB300", _sevenths("1g.35gb 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb")),
    ("B300", 268000, 290000, "B300", _sevenths("1g.34gb 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb")),
    ("PRO 6000", 94000, 100000, "RTX PRO 6000", _quarters("1g.24gb 2g.48gb 4g.96gb", "+gfx", "-me")),
)


def mig_geometry(model: str, memory_mb: float) -> Geometry | None:
    """Return the MIG profiles of a GPU; None if it does not support MIG or is unknown."""
    for word, least, most, name, profiles in _TABLE:
        if re.search(rf"\b{word}\b", model, re.IGNORECASE) and least <= memory_mb <= most:
            return Geometry(name, profiles)
    return None


def layout_entries(layout: object) -> list[dict[str, Any]]:
    """Return the entries of a layout; a single entry gives a list of one.

    Raises:
        ValueError: the layout is neither an entry nor a list of entries.
    """
    entries = [layout] if isinstance(layout, dict) else layout
    if not isinstance(entries, list):
        message = f"{layout!r} is neither an entry {{profile, count}} nor a list of them"
        raise ValueError(message)  # noqa: TRY004 - a value of the inventory
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("profile"), str):
            message = f"entry {number + 1} must have profile, such as 1g.10gb, and count"
            raise ValueError(message)  # noqa: TRY004
        unknown = sorted(set(entry) - _KEYS)
        if unknown:
            message = f"entry {number + 1}: {', '.join(unknown)}: unknown key"
            raise ValueError(message)
        count = entry.get("count", 1)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            message = f"entry {number + 1}: count must be a whole number, at least 1"
            raise ValueError(message)
        gpus = entry.get("gpus", [])
        if not isinstance(gpus, list) or any(isinstance(each, bool) or not isinstance(each, int) for each in gpus):
            message = f"entry {number + 1}: gpus must be a list of GPU indexes, such as [0, 1]"
            raise ValueError(message)
    return entries


def gpu_layouts(layout: object, count: int) -> list[list[str]]:
    """Return the profiles of each GPU of a node; a GPU without MIG has an empty list.

    Args:
        layout: entries with ``profile``, ``count`` (per GPU, default 1) and ``gpus`` (indexes from 0, default all).
        count: GPUs of the node.

    Raises:
        ValueError: the layout is malformed, or names a GPU that the node does not have.
    """
    found: list[list[str]] = [[] for _ in range(count)]
    for entry in layout_entries(layout):
        for index in entry.get("gpus") or range(count):
            if not 0 <= index < count:
                message = f"GPU {index} does not exist: the node has {count} GPUs (0 to {count - 1})"
                raise ValueError(message)
            found[index] += [entry["profile"]] * int(entry.get("count", 1))
    return found


def _other_board(geometry: Geometry, profile: str) -> str:
    """Return a hint that names the boards with the same GPU that support a profile, or ''."""
    models = {word for word, _least, _most, name, _profiles in _TABLE if name == geometry.name}
    others = [name for word, _least, _most, name, profiles in _TABLE if word in models and profile in profiles]
    return f"; supported by {' and '.join(others)}: check the hardware profile" if others else ""


def place(geometry: Geometry, profiles: Sequence[str]) -> list[tuple[str, int]]:
    """Return each profile with its first memory slice, ordered by slice.

    Large profiles are placed first and as high as possible, which keeps the remaining slices usable; all placements
    are tried.

    Raises:
        ValueError: the GPU does not support a profile, or the profiles do not fit together.
    """
    for name in profiles:
        if name not in geometry.profiles:
            message = f"{geometry.name} has no profile {name}; it has {', '.join(sorted(geometry.profiles))}"
            raise ValueError(message + _other_board(geometry, name))
    for name in dict.fromkeys(profiles):
        wanted, most = list(profiles).count(name), geometry.profiles[name].most
        if wanted > most:
            message = f"{wanted} x {name} on one {geometry.name}, which supports at most {most}"
            raise ValueError(message)
    media = [name for name in profiles if name.endswith("+me")]
    if len(media) > 1:
        message = f"{' and '.join(media)}: only one instance of a {geometry.name} can have the media extensions"
        raise ValueError(message)
    order = sorted(
        profiles, key=lambda name: (-geometry.profiles[name].size, len(geometry.profiles[name].starts), name)
    )
    found = _placed(geometry, order, frozenset())
    if found is None:
        message = f"{_format_profiles(profiles)} do not fit together on one {geometry.name}"
        raise ValueError(message)
    return sorted(found, key=lambda each: each[1])


def _placed(geometry: Geometry, order: Sequence[str], taken: frozenset[int]) -> list[tuple[str, int]] | None:
    """Return a placement of the profiles outside the taken slices, or None."""
    if not order:
        return []
    profile = geometry.profiles[order[0]]
    for start in sorted(profile.starts, reverse=profile.size > 1):
        slices = frozenset(range(start, start + profile.size))
        if slices & taken:
            continue
        rest = _placed(geometry, order[1:], taken | slices)
        if rest is not None:
            return [(order[0], start), *rest]
    return None


def _format_profiles(profiles: Sequence[str]) -> str:
    return " + ".join(f"{list(profiles).count(name)} x {name}" for name in dict.fromkeys(profiles))


def layout_problems(gpu: Mapping[str, Any], layout: object) -> list[str]:
    """Return why a layout is not possible on a node's GPUs, one sentence per error.

    Args:
        gpu: ``model``, ``memory_mb`` and ``count`` of a hardware profile.
        layout: see `gpu_layouts`; an empty list means no MIG, which every GPU supports.
    """
    try:
        wanted = gpu_layouts(layout, int(gpu["count"]))
    except ValueError as exc:
        return [str(exc)]
    if not any(wanted):
        return []
    geometry = mig_geometry(str(gpu["model"]), float(gpu["memory_mb"]))
    if geometry is None:
        known = ", ".join(dict.fromkeys(row[3] for row in _TABLE))
        return [f"no MIG profiles are known for {gpu['model']} with {gpu['memory_mb']} MiB (known: {known})"]
    problems: dict[str, list[int]] = {}
    for index, profiles in enumerate(wanted):
        try:
            place(geometry, profiles)
        except ValueError as exc:
            problems.setdefault(str(exc), []).append(index)
    return [f"GPU {','.join(map(str, gpus))}: {problem}" for problem, gpus in problems.items()]


def slurm_type(entry: Mapping[str, Any]) -> str:
    """Return Slurm's GRES type of an instance.

    Slurm's NVML plugin builds the name from model, slices and memory rounded to GiB, as in `nvidia_a100_1g.5gb`, and
    accepts any part of it as type; media extensions are not in the name. If a driver rounds differently (3g.39gb), the
    entry sets `slurm_type`.
    """
    given = entry.get("slurm_type")
    return str(given) if given else re.split(r"[+-]", str(entry["profile"]))[0]


def layout_counts(layout: object, count: int) -> dict[str, int]:
    """Return the number of instances of each Slurm type on a node, in layout order, without undivided GPUs.

    Raises:
        ValueError: see `gpu_layouts`.
    """
    gpu_layouts(layout, count)
    found: dict[str, int] = {}
    for entry in layout_entries(layout):
        name = slurm_type(entry)
        found[name] = found.get(name, 0) + int(entry.get("count", 1)) * len(entry.get("gpus") or range(count))
    return found


def gpu_instances(layout: object, count: int) -> list[list[tuple[str, int, str]]]:
    """Return the instances of each GPU in nvidia-smi's order: profile, index within the profile, and Slurm type.

    The driver numbers large instances before small ones: 7g has 0, 4g and 3g 1 and 2, 2g 3 to 6, 1g 7 to 14.

    Args:
        layout: see `gpu_layouts`.
        count: GPUs of the node.

    Raises:
        ValueError: see `gpu_layouts`.
    """
    gpu_layouts(layout, count)
    found: list[list[tuple[str, int, str]]] = [[] for _ in range(count)]
    for entry in layout_entries(layout):
        profile, kind = str(entry["profile"]), slurm_type(entry)
        for index in entry.get("gpus") or range(count):
            before = sum(name == profile for name, _, _ in found[index])
            found[index] += [(profile, before + each, kind) for each in range(int(entry.get("count", 1)))]
    return [sorted(each, key=lambda instance: (_size_order(instance[0]), instance[1])) for each in found]


def _size_order(profile: str) -> tuple[int, int, str]:
    slices, memory = ([*map(int, re.findall(r"\d+", profile)), 0, 0])[:2]
    return -slices, -memory, profile


def device_name(gpu: int, profile: str = "", number: int = 0, end: str = "") -> str:
    """Return the path of a device file on a node with MIG, as created by the mig_devices program.

    Args:
        gpu: index of the GPU in nvidia-smi.
        profile: profile of the instance; empty for the device file of the GPU.
        number: index among the GPU's instances of this profile.
        end: `gi` for the GPU instance, `ci` for the compute instance.
    """
    instance = f"-{profile.replace('+', '_')}-{number}-{end}" if profile else ""
    return f"/dev/busbar/gpu{gpu}{instance}"


def gres_counts(gpu: Mapping[str, Any] | None, mig: object) -> list[tuple[str, int]]:
    """Return type and count of each kind of GPU of a node, MIG instances first; the type may be empty.

    Raises:
        ValueError: the layout is malformed.
    """
    if not gpu or not int(gpu["count"]):
        return []
    count = int(gpu["count"])
    if not mig:
        return [(str(gpu.get("slurm_type") or ""), count)]
    whole = count - len(divided(mig, count))
    found = list(layout_counts(mig, count).items())
    return [*found, (str(gpu.get("slurm_type") or ""), whole)] if whole else found


def divided(mig: object, count: int) -> set[int]:
    """Return the indexes of the GPUs with MIG instances."""
    return {index for entry in layout_entries(mig) for index in entry.get("gpus") or range(count)}
