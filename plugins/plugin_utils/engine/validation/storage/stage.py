# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stage storage: the check of the shared tree, one job of all nodes at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ..options import Span, bytes_of
from ..stage import OneJob, Shown
from ..tests import profile_of
from .check import judge_storage
from .found import WAYS, Limits
from .output import read_storage
from .shown import shown_storage, storage_figures, storage_metrics

if TYPE_CHECKING:
    from ..model import Options, Planned

__all__ = ["Storage", "StorageOptions"]

_LEAST_BYTES = 1 << 20
_PATH = re.compile(r"/[^\x00-\x1f]*")


class StorageOptions(TypedDict):
    """The options validation_storage_*: size as bytes_of takes it, floors in bytes/s, 0 for the profile's."""

    script: str
    path: str
    speed: bool
    size: str
    seconds: Annotated[int, Span(1)]
    read_floor: Annotated[float, Span(0)]
    write_floor: Annotated[float, Span(0)]


class Storage(OneJob[StorageOptions]):
    """Proves that all nodes share a tree, and how fast each is at it."""

    name = "storage"
    form = StorageOptions
    title = "Shared tree"
    rank = 1
    proves = True
    shown = Shown(storage_figures, shown_storage, storage_metrics)

    def problems(self, options: Options) -> list[str]:
        """Return what is wrong with the path and the size."""
        if not self.asked(options):
            return []
        own = self.own(options)
        problems = []
        if not _PATH.fullmatch(own["path"]):
            problems.append("validation_storage_path: the stage storage needs the path of a tree that all nodes share")
        try:
            if bytes_of(own["size"]) < _LEAST_BYTES:
                problems.append(f"validation_storage_size: {own['size']} is less than 1M")
        except ValueError as exc:
            problems.append(f"validation_storage_size: {exc}")
        return problems

    def budget(self, options: Options) -> list[str]:
        """Return where it looks and how long it may take."""
        where = self.own(options)["path"]
        return [f"storage: all together at {where}, at most {options['test_time_limit']} s"]

    def answer(self, options: Options, planned: Planned, nodes: list[str], text: str) -> dict[str, Any]:
        """Return what the output says of the tree and of each node."""
        del planned
        return judge_storage(read_storage(text), nodes, self._limits(options, nodes))

    def _limits(self, options: Options, nodes: list[str]) -> Limits:
        """Return what the nodes are judged by: the operator's floors, else those of each node's hardware."""
        own = self.own(options)
        given = {"read": own["read_floor"], "write": own["write_floor"]}
        floors: dict[str, dict[str, float | None]] = {}
        sources: dict[str, None] = {}
        for node in nodes:
            declared = profile_of(options, node).get("storage") or {}
            floors[node] = {}
            for way in WAYS:
                known = declared.get(f"{way}_floor_bytes_per_second")
                floors[node][way] = given[way] or (float(known) if known else None)
                if floors[node][way]:
                    sources["the operator" if given[way] else str(declared.get("source") or "")] = None
        return Limits(own["path"], floors, "; ".join(filter(None, sources)), own["speed"])
