# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Callback that loads shared plugins before Ansible forks workers, and gives each run separate SSH connections."""

from __future__ import annotations

DOCUMENTATION = r"""
name: preload
type: aggregate
short_description: Load filters and hardware profiles once per run, and separate the SSH connections of runs
description:
  - Ansible forks a worker process for each task on each host. Without this callback, each worker that uses a filter of
    the collection loads and compiles all of them. This callback loads the filters, the C(template) lookup, the
    C(templates) action, the hardware profiles and the library that validates them before the first fork.
  - Disables Python's garbage collector in workers. A worker ends after one task, and garbage collection would copy the
    memory that it shares with its parent.
  - Removes C(argument_spec) from the results of passed argument validations. Ansible keeps the arguments of a task for
    each host until the task has finished on all hosts, which would increase memory and the duration of each fork.
    Callbacks that run after this one do not receive it.
  - Gives each run a private directory for the control sockets of persistent SSH connections. With Ansible's shared
    directory, a connection of an earlier run hides a changed host key for two minutes. A directory that is set in the
    environment or in C(ansible.cfg) is kept.
  - The C(ansible.cfg) of this collection enables this callback.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
requirements:
  - enable in configuration (C(callbacks_enabled = busbar.cluster.preload))
"""

import atexit
import contextlib
import gc
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import action_loader, filter_loader, lookup_loader

from ..plugin_utils.engine.catalogue import profile_check  # noqa: F401 - loaded for the workers
from ..plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ..plugin_utils.engine.catalogue.profile_schema import validator

# Loading one plugin makes Ansible load all plugins of that type.
FILTER = "busbar.cluster.fold_hosts"
LOOKUPS = ("busbar.cluster.hardware", "template")
ACTION = "busbar.cluster.templates"
CONTROL_PATHS = "ANSIBLE_SSH_CONTROL_PATH_DIR"
# A socket path has at most 107 bytes (sun_path); SSH appends 10 to this directory, and 17 more while connecting.
LONGEST = 75
CHECK = "ansible.builtin.validate_argument_spec"


def own_control_paths() -> None:
    """Give this run a private directory for SSH control sockets, unless the user configured one."""
    given, origin = constants.config.get_config_value_and_origin(
        "control_path_dir", plugin_type="connection", plugin_name="ssh"
    )
    if origin != "default":
        return
    usual = Path(os.path.expandvars(given)).expanduser()
    parent = usual if len(str(usual)) < LONGEST - len("/run-12345678") else Path("/tmp")  # noqa: S108 - mkdtemp is safe
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="run-", dir=parent)
    except OSError:
        return
    os.environ[CONTROL_PATHS] = folder
    atexit.register(_remove, folder, os.getpid())


def _remove(folder: str, owner: int) -> None:
    """Remove the directory when its creator exits, but not when a forked process exits."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible has no types
    """Loads plugins when a playbook starts, so that the forked workers share them."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "busbar.cluster.preload"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: object) -> None:  # noqa: ARG002 - Ansible's signature
        """Load plugins in the parent process before the workers are forked."""
        own_control_paths()
        filter_loader.get(FILTER)
        # Most workers look up the host's hardware, because the roles' defaults use it.
        for name in LOOKUPS:
            lookup_loader.get(name)
        action_loader.get(ACTION, class_only=True)
        site_catalogue({})
        with contextlib.suppress(ImportError):  # reported where the library is used
            validator()
        os.register_at_fork(after_in_child=gc.disable)

    def v2_runner_on_ok(self, result: Any) -> None:  # noqa: ANN401 - Ansible has no types
        """Free the memory of a role's argument specification after its validation."""
        if result.task.action == CHECK:
            result.task.args.pop("argument_spec", None)
