"""Commands and playbooks from earlier versions, with their replacements."""

from __future__ import annotations

_SECURITY_REPORT = (
    "run `lynis audit system` on a host; busbar provision preflight and busbar doctor report packages without security"
    " fixes; hardening roles and their exemptions: docs/security.md"
)
# First word after `busbar`.
COMMANDS = {
    "security": f"busbar security report was removed: {_SECURITY_REPORT}",
    "fabric": "busbar fabric was removed: scripts/benchmark search measures the culprit search on simulated fabrics",
    "vm": "busbar vm was removed: in a checkout, tests/vm/machines manages the virtual machines",
}
# Name given to `busbar provision`.
PLAYBOOKS = {
    "admit": "busbar provision put_into_service --tags admit",
    "audit_secrets": "busbar secrets audit",
    "auditd": "configure audit rules with another tool, such as devsec.hardening.os_hardening: docs/security.md",
    "doctor": "busbar doctor",
    "elevate": "busbar user elevate",
    "node_history": "busbar node show, busbar node list",
    "rotate_ssh": "busbar provision rotate_secrets -e rotate_secrets=ssh",
    "secrets": "busbar provision preflight",
    "security_report": _SECURITY_REPORT,
    "topology": "busbar inventory topology, or busbar provision describe --tags topology",
    "verify_backup": "busbar backup verify",
}
