"""Starts validations in the background (`busbar validate --detach`) and waits for them (`busbar report wait`).

Each detached validation has a folder with the files `lock` (locked while its process runs), `output`, `started` (its
process ID), and `exit_code` (written when the process exits normally).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from getpass import getuser
from pathlib import Path
from typing import IO, TYPE_CHECKING

from busbar.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LOCK, _OUTPUT, _STARTED, _CODE = "lock", "output", "started", "exit_code"
# Python may start slowly on a busy machine.
_START_S = 60.0
_POLL_S = 0.2
_SYSTEMD = Path("/run/systemd/system")
_LINGER = Path("/var/lib/systemd/linger")


def site_runs_folder(site: Path) -> Path:
    """Return the folder for the detached validations of a site."""
    return site / "logs" / "detached"


def user_runs_folder() -> Path:
    """Return this user's folder for detached validations without a site."""
    state = os.environ.get("XDG_STATE_HOME", "")
    # Relative paths are invalid (XDG Base Directory Specification).
    return (Path(state) if state.startswith("/") else Path.home() / ".local" / "state") / "busbar" / "detached"


class Detached:
    """A validation that was started with --detach."""

    def __init__(self, folder: Path) -> None:
        """Store its folder."""
        self.folder = folder
        self.name = folder.name

    @property
    def runs(self) -> bool:
        """Whether the process of the validation is alive."""
        with contextlib.suppress(OSError), (self.folder / _LOCK).open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    @property
    def exit_code(self) -> int | None:
        """Exit code of the validation, or None while it runs or if it was killed."""
        try:
            return int((self.folder / _CODE).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    @property
    def process(self) -> str:
        """Process ID of the validation, or an empty string if it is unknown."""
        try:
            return (self.folder / _STARTED).read_text(encoding="ascii").strip()
        except OSError:
            return ""

    @property
    def output(self) -> Path:
        """The file with its output."""
        return self.folder / _OUTPUT

    def __str__(self) -> str:
        """Return a description of the state."""
        if self.runs:
            return f"runs (PID {self.process or 'unknown'})"
        code = self.exit_code
        return "was killed" if code is None else f"exited with code {code}"

    def follow(self, say: Callable[[str], object]) -> int | None:
        """Print the output of the validation until it ends, and return its exit code, or None if it was killed.

        Raises:
            UsageError: the output cannot be read.
        """
        try:
            opened = self.output.open(encoding="utf-8", errors="replace")
        except OSError as exc:
            message = f"cannot read the output of validation {self.name}, which {self}: {_described(exc)}"
            raise UsageError(message) from exc
        with opened as stream:
            alive = True
            while alive:
                alive = self.runs
                for line in stream:
                    say(line.rstrip("\n"))
                if alive:
                    time.sleep(_POLL_S)
        return self.exit_code


def find(place: Path, name: str = "") -> Detached:
    """Return the detached validation whose ID starts with the given text; by default the latest one.

    Raises:
        UsageError: no validation or several validations match.
    """
    try:
        known = sorted(path for path in place.iterdir() if (path / _LOCK).is_file()) if place.is_dir() else []
    except OSError as exc:
        message = (
            f"cannot read the detached validations: {_described(exc)}; run the command as the user who started them"
        )
        raise UsageError(message) from exc
    found = [path for path in known if path.name == name] or [path for path in known if path.name.startswith(name)]
    if found and (not name or len(found) == 1):
        return Detached(found[-1])
    names = ", ".join(path.name for path in (found or known)[-5:]) or "none"
    message = f"{len(found)} detached validations match {name!r} in {place} (found {names})"
    raise UsageError(message)


def _described(exc: OSError) -> str:
    return f"{exc.filename}: {exc.strerror or exc}"


def detach(place: Path, words: Sequence[str]) -> Detached:
    """Start a busbar command that survives a logout, and return once it runs.

    Args:
        place: the folder of the detached validations.
        words: arguments of busbar.

    Raises:
        UsageError: the command cannot be started.
    """
    try:
        run = Detached(_new_folder(place))
        with (run.folder / _LOCK).open("wb") as lock, run.output.open("wb") as output:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if any(_started(run, prefix, words, lock, output) for prefix in _command_prefixes(run.name)):
                return run
    except OSError as exc:
        message = f"the validation was not started: {place}: {exc.strerror or exc}"
        raise UsageError(message) from exc
    text = run.output.read_text(encoding="utf-8", errors="replace").strip()
    message = f"the validation did not start: {text or f'see {run.folder}'}"
    raise UsageError(message)


def _new_folder(place: Path) -> Path:
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%dT%H%M%S")
    for suffix in ("", *(f"-{number}" for number in range(2, 100))):
        with contextlib.suppress(FileExistsError):
            folder = place / f"{stamp}{suffix}"
            folder.mkdir(mode=0o700)
            return folder
    raise FileExistsError(17, "100 validations were started in the same second")


def _command_prefixes(name: str) -> list[list[str]]:
    """Return command prefixes that keep a process running after a logout, best first.

    logind's KillUserProcesses does not stop a systemd scope. A user scope ends with the user manager unless lingering
    is enabled. Without systemd a new session is sufficient.
    """
    words = ["--scope", "--quiet", "--collect", f"--unit=busbar-validate-{name}", "--"]
    plain: list[list[str]] = [[]]
    if not _SYSTEMD.is_dir() or shutil.which("systemd-run") is None:
        return plain
    if os.geteuid() == 0:
        return [["systemd-run", *words], *plain]
    return [["systemd-run", "--user", *words], *plain] if (_LINGER / getuser()).exists() else plain


def _started(run: Detached, prefix: Sequence[str], words: Sequence[str], lock: IO[bytes], output: IO[bytes]) -> bool:
    """Start the command with a prefix and return whether it runs or has run."""
    command = [*prefix, sys.executable, "-m", "busbar.run.detached", str(run.folder), str(lock.fileno()), *words]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=[lock.fileno()],
    )
    until = time.monotonic() + _START_S
    while not run.process:
        if process.poll() is not None or time.monotonic() > until:
            return bool(run.process)
        time.sleep(_POLL_S)
    return True


def main(argv: Sequence[str]) -> int:
    """Run a detached command of busbar; `detach` starts this function.

    Args:
        argv: the folder, the descriptor of the lock, and the arguments of busbar.
    """
    from busbar.cli import main as busbar  # noqa: PLC0415 - avoids an import cycle

    folder, descriptor = Path(argv[0]), int(argv[1])
    # Child processes must not inherit the lock.
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - the only form of this function
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    own = os.getpid()
    _write(folder / _STARTED, str(own))
    code = 1
    try:
        code = busbar(list(argv[2:]))
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 1
    finally:
        # A forked child also reaches this point if it fails before exec.
        if os.getpid() == own:
            sys.stdout.flush()
            _write(folder / _CODE, str(code))
    return code


def _write(path: Path, text: str) -> None:
    """Write a file atomically."""
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(f"{text}\n", encoding="ascii")
    fresh.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
