# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Callback preload."""

from __future__ import annotations

DOCUMENTATION = r"""
name: preload
type: aggregate
short_description: Load the collection's filters once, not in every process
description:
  - Ansible forks a process for each task on each host. The first of our filters that such a process meets makes it read
    and compile every filter of the collection. This callback has them loaded before the first fork, so that the forked
    processes find them in memory.
  - The forked processes also do without the garbage collector of Python. They live for one task, and looking for
    garbage makes them copy the memory that they share with their parent.
  - Nothing but the time of a run changes. It is enabled in the C(ansible.cfg) of this collection.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
requirements:
  - enable in configuration (C(callbacks_enabled = busbar.cluster.preload))
"""

import gc
import os

from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import filter_loader

# Whichever is asked for, Ansible loads them all.
FILTER = "busbar.cluster.fold_hosts"


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible carries no types
    """Loads the filters when a playbook starts."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "busbar.cluster.preload"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: object) -> None:  # noqa: ARG002 - Ansible's signature
        """Load the filters into this process, which all others are forked from."""
        filter_loader.get(FILTER)
        os.register_at_fork(after_in_child=gc.disable)
