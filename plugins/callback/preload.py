# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Callback that loads shared plugins before workers are forked, and gives each run separate SSH connections."""

from __future__ import annotations

DOCUMENTATION = r"""
name: preload
type: aggregate
short_description: Load the collection's filters and hardware profiles once, and share no SSH connection with other runs
description:
  - Ansible forks a process for each task on each host. The first of our filters that such a process meets makes it read
    and compile every filter of the collection. This callback has them loaded before the first fork, so that the forked
    processes find them in memory. The same holds for the hardware profiles, the library that checks them, and
    what renders templates.
  - The forked processes also do without the garbage collector of Python. They live for one task, and looking for
    garbage makes them copy the memory that they share with their parent.
  - Ansible keeps what a task was given on each host until the task has ended on all hosts. Of the check of a role's
    options that is the role's whole C(meta/argument_specs.yml), once per host. This callback drops it from the results
    of checks that passed, so that the memory of the run, and with it what each later fork costs, does not grow by it.
    Callbacks that come after this one do not see it.
  - A run has its own directory for the sockets of SSH connections that are kept open. In Ansible's own, which all runs
    share, a connection of an earlier run hides for two minutes that a host's key has changed. A directory that the user
    names, in the environment or in C(ansible.cfg), stays.
  - It is enabled in the C(ansible.cfg) of this collection.
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

from ..plugin_utils.engine.catalogue import check  # noqa: F401 - for those who are forked
from ..plugin_utils.engine.catalogue.profiles import site_catalogue
from ..plugin_utils.engine.catalogue.schema import validator

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
    parent = usual if len(str(usual)) < LONGEST - len("/run-12345678") else Path("/tmp")  # noqa: S108 - mkdtemp's own
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


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible carries no types
    """Loads plugins once when a playbook starts, so that the forked workers share them."""

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
