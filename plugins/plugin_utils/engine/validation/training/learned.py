# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Says whether a training learned: its loss must be a number, fall, and reach that of a reference.

Seed and samples are always the same (train_ddp.py), so one rank that takes as many steps of the same batches ends at
the loss of the reference but for rounding. Many ranks see more samples in each step: the reference is that of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Reference", "gap_of_loss", "wrong_loss"]

# After fewer a loss may still be above where it began.
_ENOUGH_STEPS = 50


@dataclass(frozen=True)
class Reference:
    """What one rank must learn.

    Attributes:
        loss: at the end, None where there is no reference.
        tolerance: share of it that the loss may be above.
        steps: after which it is that.
    """

    loss: float | None = None
    tolerance: float = 0.0
    steps: int = 0

    @property
    def most(self) -> float | None:
        """The highest loss that is enough."""
        return None if self.loss is None else self.loss * (1 + self.tolerance)


def wrong_loss(result: dict[str, Any], reference: Reference) -> str:
    """Return what is wrong with what a run learned; an empty text when nothing is.

    Args:
        result: as output.read_training gives it, of any number of ranks.
        reference: of one rank.
    """
    first, final = result["first_loss"], result["final_loss"]
    if first is None or final is None:
        return "the loss is no number"
    if final >= first and (result["steps"] or 0) >= _ENOUGH_STEPS:
        return f"it learned nothing, the loss went from {first:.4g} to {final:.4g}"
    most = reference.most
    if most is not None and result["world_size"] == 1 and not gap_of_loss(result, reference) and final > most:
        return f"the loss is {final:.4g} after {reference.steps} steps, {most:.4g} at most by the reference"
    return ""


def gap_of_loss(result: dict[str, Any], reference: Reference) -> str:
    """Return why the loss of a run cannot be held against the reference; an empty text when it can."""
    took = int(result["steps"] or 0)
    if reference.loss is None or result["world_size"] != 1 or took == reference.steps:
        return ""
    return (
        f"{took} of {reference.steps} steps were taken, so its loss is not that of the reference: train longer "
        "(validation_training_seconds)"
    )
