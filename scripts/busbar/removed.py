"""Commands and playbooks of earlier versions, and what replaces them."""

from __future__ import annotations

__all__ = ["COMMANDS", "PLAYBOOKS", "SECURITY_REPORT"]

SECURITY_REPORT = (
    "run `lynis audit system` on a host; busbar provision preflight and busbar doctor report packages without security"
    " fixes; hardening roles and their exemptions: docs/security.md"
)
# First word after `busbar`.
COMMANDS = {"security": f"busbar security report was removed: {SECURITY_REPORT}"}
# Name given to `busbar provision`.
PLAYBOOKS = {"security_report": SECURITY_REPORT}
