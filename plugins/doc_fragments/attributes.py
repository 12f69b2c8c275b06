# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Shared documentation of modules: support of check mode and diff mode."""

from __future__ import annotations

_CHECK = """
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
"""
_DIFF = """\
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check mode).
    support: """


class ModuleDocFragment:
    """Attributes of modules."""

    DOCUMENTATION = _CHECK
    DIFF = f"{_CHECK}{_DIFF}full\n"
    NO_DIFF = f"{_CHECK}{_DIFF}none\n"
    READ_ONLY = """
options: {}
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
"""
