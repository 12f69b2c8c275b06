"""Changes of how to log in, undone by the host itself unless a new login is seen in time."""

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
    """Return a shell script that puts former texts back, restarts the service and removes what is in `remove`.

    A file keeps its mode and owner, for it is written in place; one that was not there is removed.

    Args:
        former: text of each file by its path; None where there was none.
        service: systemd's name of the SSH server; '' when it reads the files at each login.
        remove: paths of what the change left behind.
    """
    lines = ["#!/bin/sh", f"logger -t {UNIT} 'no new login was seen: the former settings come back'"]
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
    """Return the former texts that the module `templates` noted.

    Raises:
        ValueError: when the note is none.
    """
    noted = json.loads(text)
    if not isinstance(noted, dict):
        message = "it holds no list of files"
        raise ValueError(message)  # noqa: TRY004 - what is wrong is the text
    return {str(path): None if former is None else str(former) for path, former in noted.items()}
