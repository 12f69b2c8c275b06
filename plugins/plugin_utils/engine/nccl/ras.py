# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse the response of NCCL's RAS subsystem for a hanging job: ranks that do not respond or are behind.

The job puts ``# busbar ras: `` before each line of the response, which is JSON since NCCL 2.28.7 (NVIDIA/nccl,
docs/userguide/source/troubleshooting/ras.rst and src/ras/client_support.cc, commit 5067397c) and text in older
releases. The text differs between releases; only the lines below "Errors" and "Warnings" are used. A rank that is
behind the others is a warning (MISMATCH).
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import Any

from ..common.printable import plain_text

_MARK = "# busbar ras: "
_MOST = 6
_MOST_NAMED = 4
_plain = partial(plain_text, most=200)
_TITLES = {"OK", "Errors", "Warnings"}
_PROBLEMS = _TITLES - {"OK"}


def ras_words(text: str) -> list[str]:
    """Return RAS messages about missing, failed and late ranks, one per problem; it never raises."""
    lines = [line[len(_MARK) :] for line in text.splitlines() if line.startswith(_MARK)]
    if not lines:
        return []
    joined = "\n".join(lines)
    start = joined.find("{")
    if start >= 0:
        try:
            given = json.loads(joined[start:])
        except (ValueError, RecursionError):
            return ["the response of NCCL's RAS is incomplete; see the output"]
        found = _of_json(given)
    else:
        found = _of_text(lines)
    more = [f"NCCL's RAS reports {len(found) - _MOST} more problem(s); see the output"] if len(found) > _MOST else []
    return found[:_MOST] + more or ["NCCL's RAS reports that all ranks respond and none is behind"]


def _of_json(given: object) -> list[str]:
    comms = given.get("communicators") if isinstance(given, dict) else None
    if not isinstance(comms, list) or not comms:
        return ["NCCL's RAS reports no communicator"]
    return [words for comm in comms if isinstance(comm, dict) for words in _of_communicator(comm)]


def _of_communicator(comm: dict[str, Any]) -> list[str]:
    name = f"NCCL communicator {_plain(comm.get('hash') or '?')}"
    ranks, missing = _dicts(comm.get("ranks")), _dicts(comm.get("missing_ranks"))
    found = []
    silent = [rank for rank in missing if _status(rank).get("considered_dead") is not True]
    dead = [rank for rank in missing if _status(rank).get("considered_dead") is True]
    for words, which in (("does not answer", silent), ("is dead", dead)):
        if which:
            found.append(f"{name}: {_named(which)} {words}")
    if not missing and comm.get("missing_ranks_count"):
        found.append(f"{name}: {_plain(comm['missing_ranks_count'])} rank(s) are missing")
    broken = [rank for rank in ranks if _status(rank).get("async_error") not in {0, 7, None}]
    if broken:
        found.append(f"{name}: {_named(broken)} reports error {_plain(_status(broken[0])['async_error'])}")
    starting = [rank for rank in ranks if _status(rank).get("init_state") not in {0, None}]
    if starting:
        found.append(f"{name}: {_named(starting)} has not finished its initialization")
    return found + _behind(name, ranks)


def _behind(name: str, ranks: list[dict[str, Any]]) -> list[str]:
    """Return the ranks that have started fewer operations of a kind than others."""
    found = []
    kinds = dict.fromkeys(kind for rank in ranks for kind in _counts(rank))
    for kind in kinds:
        counts = Counter(_counts(rank).get(kind, 0) for rank in ranks)
        most = max(counts)
        late = [rank for rank in ranks if _counts(rank).get(kind, 0) < most]
        if late:
            least = min(counts)
            found.append(
                f"{name}: {_named(late)} is behind: started {least} {_plain(kind)}, while {len(ranks) - len(late)} of "
                f"{len(ranks)} ranks started {most}"
            )
    return found


def _of_text(lines: list[str]) -> list[str]:
    """Return the error and warning lines of a text response."""
    found, wanted = [], False
    for line in lines:
        bare = line.strip()
        if bare in _TITLES or set(bare) == {"="}:
            wanted = bare in _PROBLEMS if bare in _TITLES else wanted
        elif wanted and bare:
            found.append(f"NCCL's RAS: {_plain(bare)}")
    return found


def _named(ranks: list[dict[str, Any]]) -> str:
    names = [
        f"rank {_plain(rank.get('rank'))} (GPU {_plain(rank.get('nvml_dev'))} of {_plain(rank.get('host'))})"
        for rank in ranks[:_MOST_NAMED]
    ]
    more = f" and {len(ranks) - _MOST_NAMED} more" if len(ranks) > _MOST_NAMED else ""
    return ", ".join(names) + more


def _status(rank: dict[str, Any]) -> dict[str, Any]:
    status = rank.get("status")
    known = status.items() if isinstance(status, dict) else ()
    return {key: value for key, value in known if not isinstance(value, (list, dict))}


def _counts(rank: dict[str, Any]) -> dict[str, int]:
    counts = rank.get("collective_counts")
    known = counts.items() if isinstance(counts, dict) else ()
    return {str(kind): count for kind, count in known if isinstance(count, int) and not isinstance(count, bool)}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
