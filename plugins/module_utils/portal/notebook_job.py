"""Build the sbatch arguments and the script of a notebook job from a user's choices in the portal.

The hub is not trusted: it only sends a few fields. A program owned by root, which runs as the user, validates them with
this code.
"""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["JOB_NAME", "Choice", "Environment", "RequestError", "parse_choice", "sbatch_command", "script", "variables"]

JOB_NAME = "busbar-notebook"
MAX_MINUTES = 60 * 24 * 30
MAX_GPUS, MAX_CPUS, MAX_MEMORY_GIB = 1024, 4096, 65536
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}")
_VARIABLE = re.compile(r"(JUPYTERHUB|JUPYTER|JPY)_[A-Z0-9_]{1,60}")
_PEM = re.compile(r"(-----BEGIN [A-Z ]{1,40}-----\n[A-Za-z0-9+/=\n]{1,65536}-----END [A-Z ]{1,40}-----\n?){1,16}")
_FILES = ("authority", "certificate", "key")


class RequestError(ValueError):
    """An invalid notebook request; the message names the field and the reason."""


class Environment(NamedTuple):
    """The environment of a notebook: modules to load and directories for PATH, or an image.

    Attributes:
        image: container image whose `python` has JupyterHub and JupyterLab; the notebook runs in it.
    """

    name: str
    title: str
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    image: str = ""
    python: str = "python3"


class Choice(NamedTuple):
    """A user's choices in the form; empty ones are left to Slurm."""

    partition: str
    account: str
    gpu_type: str
    gpus: int
    cpus: int
    memory_gib: int
    minutes: int
    environment: str


def _number(fields: Mapping[str, Any], key: str, low: int, high: int) -> int:
    value = fields.get(key)
    text = value if isinstance(value, str) else str(value) if type(value) is int else ""
    if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
        message = f"{key}: {value!r} is not a whole number from {low} to {high}"
        raise RequestError(message)
    return int(text)


def _word(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str) or (value and not _NAME.fullmatch(value)):
        message = f"{key}: {value!r} is not a name"
        raise RequestError(message)
    return value


def parse_choice(fields: Mapping[str, Any], environments: Mapping[str, Environment]) -> Choice:
    """Return the validated choices.

    Args:
        fields: fields of `Choice`; numbers may be strings.
        environments: environments of the site, by name.

    Raises:
        RequestError: a field is unknown, has the wrong type or is out of bounds.
    """
    unknown = sorted(set(fields) - set(Choice._fields))
    if unknown:
        message = f"{unknown[0]!r} is not an option of the portal"
        raise RequestError(message)
    environment = _word(fields, "environment")
    if environment not in environments:
        message = f"environment: {environment!r} is not one of {', '.join(sorted(environments))}"
        raise RequestError(message)
    return Choice(
        partition=_word(fields, "partition"),
        account=_word(fields, "account"),
        gpu_type=_word(fields, "gpu_type"),
        gpus=_number(fields, "gpus", 0, MAX_GPUS),
        cpus=_number(fields, "cpus", 1, MAX_CPUS),
        memory_gib=_number(fields, "memory_gib", 0, MAX_MEMORY_GIB),
        minutes=_number(fields, "minutes", 1, MAX_MINUTES),
        environment=environment,
    )


def sbatch_command(choice: Choice, log: str, home: str) -> list[str]:
    """Return the sbatch command, which reads the script from standard input.

    Args:
        choice: choices of the user; memory 0 uses the default of the partition.
        log: path of the job's output.
        home: working directory of the job.
    """
    gpu = f"gpu:{choice.gpu_type}:{choice.gpus}" if choice.gpu_type else f"gpu:{choice.gpus}"
    options = {
        "partition": choice.partition,
        "account": choice.account,
        "gres": gpu if choice.gpus else "",
        "mem": f"{choice.memory_gib}G" if choice.memory_gib else "",
    }
    return [
        "sbatch",
        "--parsable",
        f"--job-name={JOB_NAME}",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={choice.cpus}",
        f"--time={choice.minutes}",
        "--no-requeue",
        f"--output={log}",
        f"--chdir={home}",
        *(f"--{name}={value}" for name, value in options.items() if value),
    ]


def variables(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the JupyterHub variables for the notebook, without the hub's other variables.

    Raises:
        RequestError: a value is not one line of text.
    """
    kept = {name: value for name, value in given.items() if _VARIABLE.fullmatch(name)}
    for name, value in kept.items():
        if not isinstance(value, str) or not value.isprintable():
            message = f"{name}: must be one line of text"
            raise RequestError(message)
    return dict(sorted(kept.items()))


def _files(given: Mapping[str, Any]) -> dict[str, str]:
    for name in _FILES:
        if not isinstance(given.get(name), str) or not _PEM.fullmatch(given[name]):
            message = f"{name}: is not PEM"
            raise RequestError(message)
    return {name: given[name].rstrip("\n") for name in _FILES}


def _in_image(environment: Environment, names: list[str], start: list[str], runtime: str) -> list[str]:
    """Return the lines that start the notebook in a container with the required paths of the node."""
    folder = PurePosixPath(start[2]).parent
    words = shlex.join([environment.python, *start[1:]])
    image = shlex.quote(environment.image)
    lines = [f"export JUPYTER_CONFIG_PATH={shlex.quote(str(folder / 'image'))}"]
    if runtime == "charliecloud":
        # ch-run sets HOME to a directory in the image.
        return [*lines, f'ch-job {image} --set-env=HOME="$HOME" --cd="$HOME" -- {words} "$folder" &']
    mounts = f'{shlex.quote(str(folder))},"$HOME","$folder"'
    # Pyxis uses the image's value of a variable unless the variable is listed.
    kept = ",".join(["HOME", "JUPYTER_CONFIG_PATH", *names])
    step = 'srun --ntasks=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" --mpi=none'
    container = f'--container-image={image} --container-mounts={mounts} --container-workdir="$HOME"'
    return [*lines, f'{step} {container} --container-env={kept} {words} "$folder" &']


def script(
    environment: Environment,
    given: Mapping[str, Any],
    files: Mapping[str, Any],
    start: list[str],
    runtime: str = "",
) -> str:
    """Return the script of the job.

    The script contains keys and tokens; slurmctld and slurmd store it so that only root and the user can read it. The
    job's environment is not used, because a site's accounting database may store it.

    Args:
        environment: environment of the notebook.
        given: the hub's variables; only JupyterHub's are used.
        files: `authority`, `certificate` and `key` in PEM, for mutual TLS between hub and notebook.
        start: command of the notebook: Python, an option and the program; the directory of the files is appended.
        runtime: container runtime: `pyxis` or `charliecloud`.

    Raises:
        RequestError: a variable or a file is invalid.
    """
    written = [
        f"cat >\"$folder/{name}.pem\" <<'END_OF_FILE'\n{text}\nEND_OF_FILE" for name, text in _files(files).items()
    ]
    kept = variables(given)
    exports = [f"export {name}={shlex.quote(value)}" for name, value in kept.items()]
    loads = [f"module load {shlex.quote(name)}" for name in environment.modules]
    paths = [f'export PATH={shlex.quote(path)}:"$PATH"' for path in environment.paths]
    return "\n".join(
        [
            "#!/bin/bash -l",
            "umask 077",
            # Both runtimes mount /tmp or its contents, independent of the node's TMPDIR.
            *(["export TMPDIR=/tmp"] if environment.image else []),
            # Remove files of killed notebooks; rm does not follow other users' links.
            'for old in "${TMPDIR:-/tmp}"/notebook.*; do',
            '    [ -O "$old" ] && ! kill -0 "$(cat "$old/pid" 2>/dev/null)" 2>/dev/null && rm -rf -- "$old"',
            "done",
            'folder=$(mktemp -d "${TMPDIR:-/tmp}/notebook.XXXXXXXX") || exit 1',
            "trap 'rm -rf \"$folder\"' EXIT",
            'echo $$ >"$folder/pid"',
            *written,
            *exports,
            *loads,
            *paths,
            *(
                _in_image(environment, list(kept), start, runtime)
                if environment.image
                else [f'{shlex.join(start)} "$folder" &']
            ),
            # A shell runs traps immediately only during `wait`.
            "notebook=$!",
            "trap 'kill \"$notebook\" 2>/dev/null' TERM INT",
            'wait "$notebook"; status=$?',
            'wait "$notebook" 2>/dev/null',
            'exit "$status"',
            "",
        ]
    )
