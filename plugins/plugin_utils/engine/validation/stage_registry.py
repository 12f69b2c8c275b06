# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stages of a validation, in order of execution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .collectives.cluster_stage import Cluster, Nic, Rail
from .collectives.culprit_search_stage import Pair
from .collectives.node_stage import Node
from .programs.gemm import Gemm
from .programs.hpl import Hpl
from .programs.rdma_pairs import RdmaPairs
from .programs.soak import Soak
from .programs.training import Training
from .storage.storage_stage import Storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .stage_base import Stage

# Callers read this as an attribute of the module, so that tests can replace it.
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
    """Return the stages that validation_stages may list."""
    return tuple(stage.name for stage in STAGES if stage.choice)


def stage_of(test: Mapping[str, Any]) -> Stage[Any] | None:
    """Return the stage of a planned or reported test, by its kind or else its stage name; None if unknown."""
    kind, label = test.get("kind"), test["stage"]
    own = next((stage for stage in STAGES if stage.name == kind), None)
    return own or next((stage for stage in STAGES if label in (stage.labels or (stage.name,))), None)
