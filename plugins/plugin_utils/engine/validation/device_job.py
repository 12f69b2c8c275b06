# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Base of the stages that are one job with a rank on each GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .stage import OneJob, Own
from .tests import gpu_count, profile_of, with_variables

if TYPE_CHECKING:
    from .model import Options

__all__ = ["DeviceJob"]


class DeviceJob(OneJob[Own]):
    """One rank on each GPU of every node; on CPUs as many as asked for."""

    def ranks_per_node(self, options: Options, nodes: list[str]) -> int:
        """Return one rank per GPU, of the node with the fewest; on CPUs as many as asked for."""
        if options["backend"] == "mpi":
            return options["mpi_ranks_per_node"]
        return max(1, min((gpu_count(profile_of(options, node)) for node in nodes), default=1))

    def exported(self, options: Options, ranks: int) -> dict[str, Any]:
        """Return the variables that the job needs in addition to BUSBAR_RANKS_PER_NODE."""
        del options, ranks
        return {}

    def arguments(self, options: Options, ranks: int) -> list[str]:
        """Return the ranks and GPUs that the job asks for."""
        gpus = [f"--gpus-per-node={ranks}"] if options["backend"] == "nccl" else []
        return [f"--ntasks-per-node={ranks}", "--export=ALL", *gpus]

    def script(self, options: Options, ranks: int) -> str:
        """Return the batch script with the variables of the job."""
        variables = {"BUSBAR_RANKS_PER_NODE": ranks, **self.exported(options, ranks)}
        return with_variables(super().script(options, ranks), variables)
