"""Tests of the job for a notebook request, and of refused requests."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.portal.notebook_job import (
    Choice,
    Environment,
    RequestError,
    parse_choice,
    sbatch_command,
    script,
    variables,
)
from executables import executable

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = Environment("default", "Python")
ENVIRONMENTS = {"default": PLAIN}
GOOD: dict[str, Any] = {
    "partition": "batch",
    "account": "research",
    "gpu_type": "h100",
    "gpus": "2",
    "cpus": 4,
    "memory_gib": 16,
    "minutes": "90",
    "environment": "default",
}
PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
FILES = {"authority": PEM, "certificate": PEM, "key": PEM.replace("CERTIFICATE", "PRIVATE KEY")}


def test_choice_gives_the_sbatch_arguments() -> None:
    choice = parse_choice(GOOD, ENVIRONMENTS)
    assert choice == Choice("batch", "research", "h100", 2, 4, 16, 90, "default")
    command = sbatch_command(choice, "/home/a/log", "/home/a")
    assert command[:3] == ["sbatch", "--parsable", "--job-name=busbar-notebook"]
    assert command[-4:] == ["--partition=batch", "--account=research", "--gres=gpu:h100:2", "--mem=16G"]
    assert "--time=90" in command
    assert "--chdir=/home/a" in command


def test_unset_choices_are_left_to_slurm() -> None:
    empty = GOOD | {"partition": "", "account": "", "gpu_type": "", "gpus": 0, "memory_gib": 0}
    command = sbatch_command(parse_choice(empty, ENVIRONMENTS), "/log", "/")
    assert [word for word in command if word.startswith(("--part", "--acc", "--gres", "--mem"))] == []
    one = sbatch_command(parse_choice(empty | {"gpus": 1}, ENVIRONMENTS), "/log", "/")
    assert "--gres=gpu:1" in one


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"partition": "batch --wrap=id"}, "partition"),
        ({"partition": ["batch"]}, "partition"),
        ({"account": "-x"}, "account"),
        ({"gpu_type": "h100:4"}, "gpu_type"),
        ({"gpus": -1}, "gpus"),
        ({"gpus": True}, "gpus"),
        ({"gpus": "1e3"}, "gpus"),
        ({"gpus": 2.0}, "gpus"),
        ({"cpus": 0}, "cpus"),
        ({"memory_gib": ""}, "memory_gib"),
        ({"minutes": "99999999999"}, "minutes"),
        ({"environment": "other"}, "environment: 'other' is not one of default"),
        ({"nodelist": "gpu1"}, "'nodelist' is not an option"),
    ],
)
def test_invalid_choice_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        parse_choice(GOOD | change, ENVIRONMENTS)


def test_only_allowed_variables_are_passed() -> None:
    given = {"JUPYTERHUB_API_TOKEN": "x y'", "PATH": "/evil", "LD_PRELOAD": "/evil", "CONFIGPROXY_AUTH_TOKEN": "secret"}
    assert variables(given) == {"JUPYTERHUB_API_TOKEN": "x y'"}
    with pytest.raises(RequestError, match="JUPYTERHUB_USER"):
        variables({"JUPYTERHUB_USER": "a\nexport PATH=/evil"})


@pytest.mark.parametrize("text", ["", "no key", f"{PEM}\nEND_OF_FILE\nid\n", PEM.replace("AAAA", "$(id)"), None])
def test_key_that_is_not_pem_is_refused(text: str | None) -> None:
    with pytest.raises(RequestError, match="key: is not PEM"):
        script(PLAIN, {}, FILES | {"key": text}, ["true"])


def test_script_passes_files_and_variables_and_cleans_up(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    probe = tmp_path / "probe.sh"
    probe.write_text(
        f'stat -c %a "$1" "$1"/key.pem >{seen}; cat "$1"/*.pem >>{seen}; echo "$JUPYTERHUB_USER" >>{seen}; exit 7\n'
    )
    (tmp_path / "notebook.killed").mkdir()
    (tmp_path / "notebook.runs").mkdir()
    (tmp_path / "notebook.runs" / "pid").write_text(f"{os.getpid()}\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "notebook.link").symlink_to(tmp_path / "home")
    environment = Environment("default", "Python", paths=(str(tmp_path),))
    text = script(environment, {"JUPYTERHUB_USER": "o'neil $(id)"}, FILES, ["/bin/sh", str(probe)])
    done = subprocess.run(
        ["bash", "-s"],
        input=text,
        text=True,
        check=False,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 7, done.stderr
    lines = seen.read_text().splitlines()
    assert lines[:2] == ["700", "600"]
    assert lines[2:-1] == "".join(FILES[name] for name in ("authority", "certificate", "key")).splitlines()
    assert lines[-1] == "o'neil $(id)"
    assert [path.name for path in tmp_path.glob("notebook.*")] == ["notebook.runs"]
    assert (tmp_path / "home").is_dir()


CHARLIECLOUD = "torch.tar.zst|--set-env=HOME={home}|--cd={home}|--|/opt/conda/bin/python3|-I|/shared/start.py|1|2|{key}"
PYXIS = (
    "--ntasks=1|--cpus-per-task=4|--mpi=none|--container-image=torch.tar.zst|--container-mounts=/shared,{home},{key}|"
    "--container-workdir={home}|--container-env=HOME,JUPYTER_CONFIG_PATH,JUPYTERHUB_USER|"
    "/opt/conda/bin/python3|-I|/shared/start.py|1|2|{key}"
)


@pytest.mark.parametrize(
    ("runtime", "program", "words"), [("charliecloud", "ch-job", CHARLIECLOUD), ("pyxis", "srun", PYXIS)]
)
def test_container_gets_home_keys_and_the_start_command(tmp_path: Path, runtime: str, program: str, words: str) -> None:
    home = tmp_path / "a home"
    home.mkdir()
    stand_in = tmp_path / program
    executable(
        stand_in,
        f'#!/bin/bash\n(IFS="|"; echo "$*"; echo "$JUPYTER_CONFIG_PATH $TMPDIR") >{tmp_path}/seen\n'
        'test -s "${@: -1}/key.pem"\n',
    )
    environment = Environment("torch", "PyTorch", image="torch.tar.zst", python="/opt/conda/bin/python3")
    start = ["/shared/notebook/bin/python", "-I", "/shared/start.py", "1", "2"]
    text = script(environment, {"JUPYTERHUB_USER": "alice"}, FILES, start, runtime)
    assert "export TMPDIR=/tmp\n" in text
    done = subprocess.run(
        ["bash", "-s"],
        input=text.replace("export TMPDIR=/tmp\n", f"export TMPDIR={tmp_path}\n"),
        text=True,
        check=False,
        capture_output=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(home), "SLURM_CPUS_PER_TASK": "4"},
    )
    assert done.returncode == 0, done.stderr
    said, around = (tmp_path / "seen").read_text().splitlines()
    key = said.rpartition("|")[2]
    assert said == words.format(home=home, key=key)
    assert around == f"/shared/image {tmp_path}"
