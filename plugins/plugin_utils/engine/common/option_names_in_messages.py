# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Option names in messages, as inventory variables or as command line options, depending on the front end."""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NAMING: ContextVar[Callable[[str], str]] = ContextVar("naming", default=str)


def option(key: str) -> str:
    """Return the name of an option for messages: the key, unless option_names() sets a different one."""
    return _NAMING.get()(key)


@contextlib.contextmanager
def option_names(naming: Callable[[str], str]) -> Iterator[None]:
    """Set the option names in messages within a block, such as ``validation_nodes`` or ``--nodelist`` for ``nodes``."""
    token = _NAMING.set(naming)
    try:
        yield
    finally:
        _NAMING.reset(token)
