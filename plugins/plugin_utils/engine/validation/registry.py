# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stages of a validation, in the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .collectives.cluster import Cluster, Nic, Rail
from .collectives.node import Node
from .collectives.pair import Pair
from .programs.gemm import Gemm
from .programs.hpl import Hpl
from .programs.rdma_pairs import RdmaPairs
from .programs.soak import Soak
from .programs.training import Training
from .storage.stage import Storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .stage import Stage

__all__ = ["STAGES", "choices", "stage_of"]

# Readers take it from this module by its name at each use, so that a test can add to it.
STAGES: tuple[Stage[Any], ...] = (
    Storage(),
    Node(),
    Gemm(),
    Pair(),
    Cluster(),
    Rail(),
    Nic(),
    RdmaPairs(),
    Hpl(),
    Training(),
    Soak(),
)


def choices() -> tuple[str, ...]:
    """Return what validation_stages may name."""
    return tuple(stage.name for stage in STAGES if stage.choice)


def stage_of(test: Mapping[str, Any]) -> Stage[Any] | None:
    """Return the stage of a planned test, or of one of a report; None for one that nobody knows.

    The kind counts before the stage: it tells a job of a stage's own from a collective.
    """
    kind, label = test.get("kind"), test["stage"]
    own = next((stage for stage in STAGES if stage.name == kind), None)
    return own or next((stage for stage in STAGES if label in (stage.labels or (stage.name,))), None)
