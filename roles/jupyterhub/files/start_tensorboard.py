"""Serves TensorBoard on a Unix socket, because every user of the node could connect to a port."""

import os
import sys
from pathlib import Path

from tensorboard import default, program
from werkzeug.serving import run_simple

LOGS = Path(os.environ.get("TENSORBOARD_LOGDIR", "~/runs")).expanduser()


class SocketServer:
    """Replaces TensorBoard's HTTP server."""

    def __init__(self, application, flags) -> None:  # noqa: ANN001, ARG002 - TensorBoard's
        """Store the WSGI application."""
        self.application = application

    def serve_forever(self) -> None:
        """Serve until the notebook ends."""
        run_simple(f"unix://{sys.argv[1]}", 0, self.application, threaded=True)

    def get_url(self) -> str:
        """Return the address of the socket."""
        return sys.argv[2]

    def print_serving_message(self) -> None:
        """Print nothing, because the launcher shows the link."""


if __name__ == "__main__":
    LOGS.mkdir(parents=True, exist_ok=True)
    board = program.TensorBoard(default.get_plugins(), server_class=SocketServer)
    # TensorBoard records its port in /tmp for other programs; all users can write to that directory.
    board._register_info = lambda _: None  # noqa: SLF001 - TensorBoard has no option for this
    # The fast loader would start a second server on a TCP port.
    prefix = ["--path_prefix", sys.argv[2].rstrip("/"), "--load_fast=false"]
    board.configure(argv=["tensorboard", "--logdir", str(LOGS), *prefix])
    sys.exit(board.main())
