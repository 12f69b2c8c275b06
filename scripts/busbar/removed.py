"""Commands and playbooks of earlier versions, and what replaces them."""

from __future__ import annotations

__all__ = ["COMMANDS", "PLAYBOOKS"]

_SECURITY_REPORT = (
    "run `lynis audit system` on a host; busbar provision preflight and busbar doctor report packages without security"
    " fixes; hardening roles and their exemptions: docs/security.md"
)
# First word after `busbar`.
COMMANDS = {"security": f"busbar security report was removed: {_SECURITY_REPORT}"}
# Name given to `busbar provision`.
PLAYBOOKS = {
    "auditd": "the audit rules of a site are its own, for example by devsec.hardening.os_hardening: docs/security.md",
    "security_report": _SECURITY_REPORT,
}
