# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Documentation that modules share: what they do in check mode and in diff mode."""

from __future__ import annotations


class ModuleDocFragment:
    """Attributes of modules."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
"""

    DIFF = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check mode).
    support: full
"""

    NO_DIFF = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check mode).
    support: none
"""

    READ_ONLY = r"""
options: {}
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
"""
