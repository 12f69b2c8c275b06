"""Tests of command line completion with a real bash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BASH = r"""
source <(busbar completion bash)
complete -p busbar | grep -q _python_argcomplete || exit 1
while IFS= read -r line; do
    read -ra COMP_WORDS <<<"$line"
    case $line in *' ') COMP_WORDS+=('') ;; esac
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line} COMP_TYPE=9 COMPREPLY=()
    _python_argcomplete busbar
    echo "${COMPREPLY[*]}"
done
"""
ASKED = {
    "busbar pro": {"provision"},
    "busbar doctor --off": {"--offline"},
    "busbar provision --limit gpu": {"gpu1", "gpu2"},
    "busbar health -i inv": {"inventory/"},
    "busbar health -i inventory slurm_c": {"slurm_compute"},
    "busbar nccl matrix x --hardware dgx_h": {"dgx_h100", "dgx_h200"},
}


def test_bash_completes_commands_options_playbooks_hosts_and_hardware(tmp_path: Path) -> None:
    (tmp_path / "inventory").mkdir()
    hosts = "all: {children: {slurm_compute: {hosts: {gpu1: {}, gpu2: {}}}}}\n"
    (tmp_path / "inventory" / "hosts.yml").write_text(hosts)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH],
        input="\n".join(ASKED) + "\n",
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    answers = dict(zip(ASKED, done.stdout.splitlines(), strict=True))
    missing = {line: answers[line] for line, words in ASKED.items() if not words <= set(answers[line].split())}
    assert missing == {}, done.stderr
