# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The collectives of a validation: their programs, the floors from options, and the sections of a job's output."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..common.option_names_in_messages import option

if TYPE_CHECKING:
    from collections.abc import Mapping

# The collectives of busbar's MPI program, and those for which nccl-tests has a program NAME_perf.
MPI_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv")
COLLECTIVES = (*MPI_COLLECTIVES, "reduce", "gather", "scatter", "hypercube", "alltoallv")

_SECTION = re.compile(r"^# busbar test: (\w+) (\d+)\s*$", re.MULTILINE)
_EXIT = re.compile(r"^# busbar exit: (\w+) (\d+) (\d+)\s*$", re.MULTILINE)
_IN_TIME = re.compile(r"^# busbar repeats: (\d{1,3}), no time for more\s*$", re.MULTILINE)


def _is_program(path: str) -> bool:
    """Return whether a path names an nccl-tests program; the paths of its other programs are derived from it."""
    return any(f"{name}_perf" in path.rpartition("/")[2] for name in COLLECTIVES)


def collective_problems(options: Mapping[str, Any]) -> list[str]:
    """Return the problems with the selected collectives, each with its remedy.

    Args:
        options: backend, binary, collectives, search_collective (auto or one of them).
    """
    wanted = options["collectives"]
    if not isinstance(wanted, list) or not wanted:
        return [f"{option('collectives')}: must be a list of at least one collective, such as [all_reduce]"]
    known = MPI_COLLECTIVES if options["backend"] == "mpi" else COLLECTIVES
    problems = [
        f"{option('collectives')}: {name!r} is not one of {', '.join(known)}" for name in wanted if name not in known
    ]
    twice = sorted(name for name, count in Counter(map(str, wanted)).items() if count > 1)
    if twice:
        problems.append(f"{option('collectives')}: lists {', '.join(twice)} more than once: remove the duplicates")
    search = options["search_collective"]
    if search not in {"auto", *known}:
        problems.append(f"{option('search_collective')}: {search!r} is not auto or one of {', '.join(known)}")
    several = len(wanted) > 1 or (search != "auto" and search not in wanted)
    binary = str(options["binary"]) if options["backend"] == "nccl" else ""
    if several and binary and not binary.endswith("/") and not _is_program(binary):
        problems.append(
            f"{option('binary')}: {binary} is not an nccl-tests program, so it can run only one collective: set the "
            "path of a program such as all_reduce_perf, or the directory of the programs with a trailing slash"
        )
    return problems


def floor_problems(options: Mapping[str, Any]) -> list[str]:
    """Return the problems with the option floor_gbs, each with its remedy.

    Args:
        options: collectives, search_collective, floor_gbs (a number, or collective to number).
    """
    given = options["floor_gbs"]
    where = option("floor_gbs")
    if isinstance(given, dict):
        strange = [str(name) for name in given if name not in COLLECTIVES]
        problems = [f"{where}: {name!r} is not one of {', '.join(COLLECTIVES)}" for name in strange]
        wrong = [name for name, value in given.items() if name not in strange and not _number(value)]
        return problems + [f"{where}: {name}: {given[name]!r} is not a bandwidth in GB/s" for name in wrong]
    if _number(given) is None:
        return [f"{where}: {given!r} is not a bandwidth in GB/s: set a number, or a number for each collective"]
    if _number(given) and len(options["collectives"]) > 1:
        each = ", ".join(f"{name}: …" for name in options["collectives"])
        return [f"{where}: one number cannot apply to several collectives: set {{{each}}}"]
    return []


def _number(value: object) -> float | None:
    """Return a bandwidth of at least 0 from a number or string; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if 0 <= found < float("inf") else None


def floor_of(options: Mapping[str, Any], collective: str) -> float | None:
    """Return the floor of a collective from the options in GB/s; None if not set.

    A single number applies only to the measured collective, not to others that the culprit search uses.
    """
    given = options["floor_gbs"]
    if isinstance(given, dict):
        given = given.get(collective)
    elif collective != options["collectives"][0]:
        given = None
    return (_number(given) or None) if given is not None else None


def repeats_in_time(text: str | None) -> int | None:
    """Return the number of completed repeats if the job's time limit was too short for all; otherwise None."""
    match = _IN_TIME.search(text or "")
    return int(match[1]) if match else None


def sections(text: str, collectives: list[str]) -> dict[str, tuple[list[str], bool | None]]:
    """Return the sections of a job's output by collective, one per repeat, and whether all of them succeeded.

    The job prints ``# busbar test: NAME REPEAT`` before and ``# busbar exit: NAME REPEAT CODE`` after each program.
    Output without such lines belongs to the first collective, with an unknown exit status (None).
    """
    starts = list(_SECTION.finditer(text))
    if not starts:
        return {name: ([text] if name == collectives[0] else [], None) for name in collectives}
    ends = [match.start() for match in starts[1:]] + [len(text)]
    texts: dict[str, list[str]] = {name: [] for name in collectives}
    for match, end in zip(starts, ends):
        texts.setdefault(match[1], []).append(text[match.end() : end])
    codes: dict[str, list[int]] = {}
    for match in _EXIT.finditer(text):
        codes.setdefault(match[1], []).append(int(match[3]))
    return {
        name: (texts[name], len(codes.get(name, [])) == len(texts[name]) > 0 and not any(codes[name])) for name in texts
    }
