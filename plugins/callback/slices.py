# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Callback slices."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slices
type: aggregate
short_description: Keep the order of plays where one run is shared out over several processes
description:
  - C(busbar provision --slices) enables it, and nothing else needs it. Without the variable E(BUSBAR_SLICE) of the
    environment, which names the socket of whoever started the process, it does nothing.
  - Before each play it asks whether all slices are through with the one before, and waits for the answer.
  - Tasks with C(run_once) that follow one another are done by one slice at a time.
  - When a run ends before its last play although hosts of it are sound, as with C(any_errors_fatal), it says so, and
    the other slices begin no play that changes anything.
  - A process whose starter has died ends, so that nobody works on hosts that another has taken over.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
requirements:
  - is enabled by C(busbar provision --slices)
"""

import ctypes
import os
import signal
import sys
from typing import Any

from ansible.plugins.callback import CallbackBase

from ..plugin_utils.slice_link import SOCKET, LostError, SliceLink

STOPPED = 3
_PR_SET_PDEATHSIG = 1


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible carries no types
    """Asks before each play, and before what is done once."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "busbar.cluster.slices"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        """Begin before the first play."""
        super().__init__()
        self._link: SliceLink | None = None
        self._total, self._number = 0, -1
        self._last: tuple[str, str] | None = None
        self._alone = self._fatal = False

    def v2_playbook_on_start(self, playbook: Any) -> None:  # noqa: ANN401 - Ansible has no types
        """Connect to whoever started this process, and end with it."""
        path = os.environ.get(SOCKET)
        if not path:
            return
        self._total = len(playbook.get_plays())
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        try:
            self._link = SliceLink(path)
        except LostError as exc:
            self._lost(exc)

    def v2_playbook_on_play_start(self, play: Any) -> None:  # noqa: ANN401
        """Wait for the other slices; the batches of one play are one."""
        self._share()
        this = (str(play.get_path()), str(play.name))
        if this == self._last or self._link is None:
            return
        self._last = this
        self._number += 1
        if self._ask(play=self._number, together="preflight" in play.tags) == "stop":
            sys.exit(STOPPED)

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: ANN401, ARG002, FBT001
        """Wait until no other slice does something once."""
        if not task.run_once:
            self._share()
        elif self._link is not None and not self._alone:
            self._ask(alone=True)
            self._alone = True

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:  # noqa: ANN401
        """Treat handlers as any task."""
        self.v2_playbook_on_task_start(task, is_conditional=False)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:  # noqa: ANN401, FBT001, FBT002
        """Note whether the task that failed last ends the run for all hosts."""
        if not ignore_errors:
            self._note(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:  # noqa: ANN401
        """Treat a host that is away as one that failed."""
        self._note(result)

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ANN401
        """Say how it ended."""
        self._share()
        if self._link is None:
            return
        sound = [host for host in stats.processed if not stats.failures.get(host) and not stats.dark.get(host)]
        early = self._number + 1 < self._total
        self._tell(ended=True, early=early, stopped=early and bool(sound or self._fatal))

    def _note(self, result: Any) -> None:  # noqa: ANN401
        self._fatal = bool(result.task.any_errors_fatal or result.task.run_once)

    def _share(self) -> None:
        """Let the others do what is done once."""
        if self._alone:
            self._alone = False
            self._tell(shared=True)

    def _ask(self, **what: object) -> str:
        try:
            return self._link.ask(**what) if self._link is not None else ""
        except LostError as exc:
            self._lost(exc)
            return ""

    def _tell(self, **what: object) -> None:
        try:
            if self._link is not None:
                self._link.tell(**what)
        except LostError as exc:
            self._lost(exc)

    def _lost(self, exc: LostError) -> None:
        """End this process: an exception would be a warning only."""
        self._display.error(f"this slice ends: {exc}", wrap_text=False)
        sys.exit(STOPPED)
