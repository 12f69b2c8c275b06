"""The developer setup of CONTRIBUTING.md runs verbatim in a copy of the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from executables import executable

TOP = Path(__file__).resolve().parents[3]
BUSBAR = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$2" in status) [ -e "$CALLS.stands" ] ;; up) touch "$CALLS.stands" ;; esac
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the checkout with this one's tools and a stand-in for busbar that logs its calls."""
    if not (TOP / ".venv/.busbar-setup").exists():
        pytest.skip("scripts/ci unit installed another ansible-core than scripts/setup")
    checkout = tmp_path / "checkout"
    run = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(run, check=True, capture_output=True, text=True, cwd=TOP).stdout.split("\0"):
        if name and ((TOP / name).is_symlink() or (TOP / name).is_file()):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, checkout / name, follow_symlinks=False)
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (packages,) = (TOP / ".venv" / "lib").glob("python3*/site-packages")
    (checkout / packages.relative_to(TOP)).mkdir(parents=True)
    for path in [*(TOP / ".venv" / "bin").iterdir(), *packages.iterdir(), TOP / ".venv" / "pyvenv.cfg"]:
        # setup writes this file; a link would change the environment of this checkout, which other tests use.
        if path.name == "busbar.pth":
            shutil.copy2(path, checkout / path.relative_to(TOP))
        else:
            (checkout / path.relative_to(TOP)).symlink_to(path)
    shutil.copy(TOP / ".venv" / ".busbar-setup", checkout / ".venv")
    (checkout / ".cache").symlink_to(TOP / ".cache")
    # The real pip would install into the environment of its shebang.
    for name, text in (("busbar", BUSBAR), ("pip", "#!/bin/sh\n")):
        (checkout / ".venv" / "bin" / name).unlink()
        executable(checkout / ".venv" / "bin" / name, text)
    return checkout


def test_setup_installs_hooks_and_keeps_an_existing_sandbox(copy: Path, tmp_path: Path) -> None:
    # A different list of locked packages, so that setup installs.
    (copy / ".venv" / ".busbar-setup").write_text("[docs,test]\nof yesterday\n")
    packages = next((TOP / ".venv" / "lib").glob("python3*/site-packages"))
    before = {path: path.read_text() for path in packages.glob("*busbar*") if path.is_file()}
    assert before
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment = kept | {"CALLS": str(tmp_path / "calls"), "PRE_COMMIT_HOME": str(tmp_path / "hooks")}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=copy, env=environment, check=False, capture_output=True, text=True)

    def commit(*options: str) -> subprocess.CompletedProcess[str]:
        run("git", "add", "-A")
        who = ("-c", "user.name=me", "-c", "user.email=me@localhost")
        return run("git", *who, "commit", "-q", "-m", "docs: a page", *options)

    assert run("git", "init", "-q").returncode == 0
    text = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## Set up\n.*?(?=^## )", text, re.MULTILINE | re.DOTALL)
    commands = [line.removeprefix("$ ").split() for line in section.splitlines() if line.startswith("$ scripts/dev")]
    assert commands == [["scripts/dev"]]
    for _ in range(2):
        done = run(*commands[0])
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "calls").read_text().splitlines() == [
        "sandbox status --name dev",
        "sandbox up --name dev",
        "provision --name dev",
        "sandbox status --name dev",
    ]
    assert run("scripts/dev", "--nonsense").returncode == 2
    # The hooks check the changes of a commit.
    assert commit("--no-verify").returncode == 0
    (copy / "scripts" / "devel" / "untidy.py").write_text("import os\n")
    refused = commit()
    assert refused.returncode != 0
    assert "F401" in refused.stdout + refused.stderr
    (copy / "scripts" / "devel" / "untidy.py").unlink()
    (copy / "docs" / "page.md").write_text("# A page\n")
    taken = commit()
    assert taken.returncode == 0, taken.stdout + taken.stderr
    assert {path: path.read_text() for path in packages.glob("*busbar*") if path.is_file()} == before
