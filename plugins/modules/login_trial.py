"""Module that applies a change to the login configuration, which is rolled back unless a new login succeeds."""

from __future__ import annotations

DOCUMENTATION = r"""
module: login_trial
author: busbar contributors (!UNKNOWN)
short_description: Roll back a login change unless a new login succeeds
description:
  - V(started) activates the new settings of the SSH server. The host rolls them back after O(seconds), unless V(kept)
    runs over a new connection first. So a wrong setting locks users out only temporarily.
extends_documentation_fragment: busbar.cluster.attributes
options:
  note:
    description: File that M(busbar.cluster.templates) wrote to its option C(pending), with the previous contents.
    type: path
    required: true
  service: {description: Unit to restart., type: str, default: ''}
  seconds: {description: Seconds to wait for a new login., type: int, default: 180}
  state: {description: Start the trial or keep the change., type: str, choices: [started, kept], required: true}
"""

EXAMPLES = r"""
- busbar.cluster.login_trial: {state: started, note: /var/lib/busbar/ssh/sshd, service: ssh}
"""

RETURN = r""" # """

import base64
import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule

if TYPE_CHECKING:
    from collections.abc import Mapping

UNIT = "busbar-login-trial"


def restore_script(former: Mapping[str, str | None], service: str, remove: list[str]) -> str:
    """Return a shell script that restores previous contents, restarts the service and removes the paths in `remove`.

    Files are written in place and so keep mode and owner; files that did not exist before are removed.

    Args:
        former: previous content of each file by path; None if the file did not exist.
        service: systemd unit of the SSH server; '' if the server reads the files at each login.
        remove: paths to remove.
    """
    lines = ["#!/bin/sh", f"logger -t {UNIT} 'no new login in time: restoring the previous settings'"]
    for path, text in former.items():
        quoted = shlex.quote(path)
        if text is None:
            lines.append(f"rm -f -- {quoted}")
        else:
            encoded = base64.b64encode(text.encode()).decode()
            lines.append(f"printf %s {encoded} | base64 -d >{quoted}")
    if service:
        lines.append(f"systemctl restart {shlex.quote(service)}")
    lines += [f"rm -f -- {shlex.quote(path)}" for path in remove]
    return "\n".join(lines) + "\n"


def read_note(text: str) -> dict[str, str | None]:
    """Return the previous file contents that the `templates` module saved.

    Raises:
        ValueError: the text is not a JSON object.
    """
    noted = json.loads(text)
    if not isinstance(noted, dict):
        message = "is not a JSON object of paths and contents"
        raise ValueError(message)  # noqa: TRY004 - the text is invalid, not the argument type
    return {str(path): None if former is None else str(former) for path, former in noted.items()}


def start(module: AnsibleModule, note: Path, script: Path) -> None:
    """Schedule the rollback on the host, then restart the SSH server."""
    try:
        former = read_note(note.read_text())
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{note}: {exc}: run the role again")
    service = module.params["service"]
    descriptor = os.open(script, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(restore_script(former, service, [str(note), str(script)]))
    module.run_command(["systemctl", "stop", f"{UNIT}-{note.name}.timer"])
    timer = ["systemd-run", f"--unit={UNIT}-{note.name}", f"--on-active={module.params['seconds']}"]
    module.run_command([*timer, "--timer-property=AccuracySec=1s", "--collect", str(script)], check_rc=True)
    if service:
        module.run_command(["systemctl", "restart", service], check_rc=True)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "note": {"type": "path", "required": True},
            "service": {"type": "str", "default": ""},
            "seconds": {"type": "int", "default": 180},
            "state": {"type": "str", "choices": ["started", "kept"], "required": True},
        },
        supports_check_mode=True,
    )
    note = Path(module.params["note"])
    script = note.with_name(f"{note.name}.restore")
    if not module.check_mode:
        if module.params["state"] == "started":
            start(module, note, script)
        else:
            module.run_command(["systemctl", "stop", f"{UNIT}-{note.name}.timer"])
            for path in (script, note):
                path.unlink(missing_ok=True)
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
