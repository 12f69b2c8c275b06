# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Shared documentation of modules: support of check mode and diff mode."""

from __future__ import annotations


class ModuleDocFragment:
    """Attributes of modules."""

    # Literals only: `ansible-test sanity` does not evaluate expressions.
    DOCUMENTATION = """
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
"""
    DIFF = """
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check mode).
    support: full
"""
    NO_DIFF = """
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check mode).
    support: none
"""
    READ_ONLY = """
options: {}
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
"""
