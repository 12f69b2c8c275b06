# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What the stages that run collectives have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .node_checks import judged_test
from .stage import Stage

if TYPE_CHECKING:
    from .model import Entry, Options, Planned, Test

__all__ = ["Collective"]


class Collective(Stage[None]):
    """A stage whose tests run collectives, and say something about the nodes and the links between them."""

    infers = True

    def judge(self, options: Options, planned: Planned, entry: Entry, text: str | None) -> list[Test]:
        """Return the report's entries of a test, one per collective."""
        return judged_test(options, planned, entry, text)
