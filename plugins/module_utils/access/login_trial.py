"""Roll back changes to the SSH configuration automatically, unless a new login succeeds in time."""

from __future__ import annotations

import base64
import json
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["UNIT", "read_note", "restore_script"]

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
