"""Defines the options that busbar passes unchanged to ansible-playbook."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_VALUES = (
    (("-l", "--limit"), "PATTERN", "limit the run to these hosts"),
    (("-t", "--tags"), "TAGS", "run only tasks with these tags"),
    (("--skip-tags",), "TAGS", "skip tasks with these tags"),
    (("-e", "--extra-vars"), "VARS", "variables: key=value, YAML or @file"),
    (("-f", "--forks"), "N", "number of hosts in parallel"),
    (("-u", "--user"), "USER", "login user"),
    (("--private-key", "--key-file"), "FILE", "private key for logins"),
    (("-c", "--connection"), "TYPE", "connection plugin"),
    (("-T", "--timeout"), "SECONDS", "connection timeout in seconds"),
    (("--ssh-common-args",), "ARGS", "options for ssh, scp and sftp"),
    (("--ssh-extra-args",), "ARGS", "options for ssh"),
    (("--become-method",), "METHOD", "method to become root"),
    (("--become-password-file", "--become-pass-file"), "FILE", "file with the sudo password"),
    (("--connection-password-file", "--conn-pass-file"), "FILE", "file with the SSH password"),
    (("--vault-id",), "ID", "vault identity"),
    (("--vault-password-file", "--vault-pass-file"), "FILE", "file with the vault password"),
    (("--start-at-task",), "TASK", "start at this task"),
)
_FLAGS = (
    (("-C", "--check"), "dry run: report changes without applying them"),
    (("-D", "--diff"), "show differences in files"),
    (("-v", "--verbose"), "more output in the log; -vvv for debugging"),
    (("--syntax-check",), "check the syntax of the playbook only"),
    (("--list-hosts",), "list the hosts only"),
    (("--list-tasks",), "list the tasks only"),
    (("--list-tags",), "list the tags only"),
    (("--flush-cache",), "clear cached facts"),
    (("--force-handlers",), "run handlers even if a task failed"),
)


class _ForwardOption(argparse.Action):
    """Stores an option and its value unchanged."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        """Append the option and its value, if it has one, to `options`."""
        del parser
        given = [str(option_string), values] if isinstance(values, str) else [str(option_string)]
        namespace.options = [*namespace.options, *given]


def add_ansible_options(parser: argparse.ArgumentParser) -> None:
    """Add the options; the parsed arguments contain the given ones, in order, in `options`."""
    group = parser.add_argument_group("options of ansible-playbook")
    parser.set_defaults(options=[])
    for flags, metavar, text in _VALUES:
        group.add_argument(
            *flags, action=_ForwardOption, dest="options", metavar=metavar, help=text, default=argparse.SUPPRESS
        )
    for flags, text in _FLAGS:
        group.add_argument(*flags, action=_ForwardOption, dest="options", nargs=0, help=text, default=argparse.SUPPRESS)
