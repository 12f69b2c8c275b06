"""How a process of Ansible that runs one slice of a playbook asks whether it may go on.

`busbar provision --slices` starts it, and listens on a socket whose path is in the environment.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

__all__ = ["SOCKET", "LostError", "SliceLink"]

SOCKET = "BUSBAR_SLICE"
"""The variable of the environment that names the socket."""


class LostError(RuntimeError):
    """Whoever started this process is gone."""


class SliceLink:
    """The way to whoever started this process."""

    def __init__(self, path: str) -> None:
        """Connect.

        Raises:
            LostError: nobody listens.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
        except OSError as exc:
            message = f"{path}: {exc.strerror}"
            raise LostError(message) from exc
        self._answers = self._socket.makefile("r", encoding="utf-8")
        # Whoever is forked from here has its own work.
        os.register_at_fork(after_in_child=self._socket.close)

    def ask(self, **what: Any) -> str:  # noqa: ANN401 - whatever JSON takes
        """Ask, and wait for the answer.

        Raises:
            LostError: there will be none.
        """
        self.tell(**what)
        try:
            said = self._answers.readline()
        except OSError:
            said = ""
        if not said:
            message = "whoever started this slice is gone"
            raise LostError(message)
        return said.strip()

    def tell(self, **what: Any) -> None:  # noqa: ANN401 - whatever JSON takes
        """Say something that needs no answer.

        Raises:
            LostError: nobody listens.
        """
        try:
            self._socket.sendall(f"{json.dumps(what)}\n".encode())
        except OSError as exc:
            message = "whoever started this slice is gone"
            raise LostError(message) from exc
