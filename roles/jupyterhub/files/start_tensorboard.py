"""Serves TensorBoard through a socket of Unix: a port would be open to every user of the node."""

import os
import sys
from pathlib import Path

from tensorboard import default, program
from werkzeug.serving import run_simple

LOGS = Path(os.environ.get("TENSORBOARD_LOGDIR", "~/runs")).expanduser()


class SocketServer:
    """What TensorBoard starts instead of its own server."""

    def __init__(self, application, flags) -> None:  # noqa: ANN001, ARG002 - TensorBoard's
        """Take what is to be served."""
        self.application = application

    def serve_forever(self) -> None:
        """Serve until the notebook ends."""
        run_simple(f"unix://{sys.argv[1]}", 0, self.application, threaded=True)

    def get_url(self) -> str:
        """Where it is."""
        return sys.argv[2]

    def print_serving_message(self) -> None:
        """Tell nobody: it stands in the launcher."""


if __name__ == "__main__":
    LOGS.mkdir(parents=True, exist_ok=True)
    board = program.TensorBoard(default.get_plugins(), server_class=SocketServer)
    # TensorBoard notes its port, for programs that look for one in /tmp, where all users write.
    board._register_info = lambda _: None  # noqa: SLF001 - there is no other way
    # The fast loader is a second server, on a port.
    prefix = ["--path_prefix", sys.argv[2].rstrip("/"), "--load_fast=false"]
    board.configure(argv=["tensorboard", "--logdir", str(LOGS), *prefix])
    sys.exit(board.main())
