"""The notebook server: JupyterHub's single-user server, which stops when it is idle.

The hub cannot detect idle notebooks because it sees only requests: an open page sends requests continuously, while a
cell that computes for hours sends none.
"""

import time

EVERY_S = 30


def is_busy(kernels, terminals) -> bool:  # noqa: ANN001 - Jupyter's
    """Return whether a cell is computing or a program runs in a terminal."""
    if any(kernel.execution_state in ("busy", "starting") for kernel in kernels):
        return True
    import psutil  # noqa: PLC0415 - the environment of the notebooks has it

    for terminal in terminals:
        try:
            if psutil.Process(terminal.ptyproc.pid).children():
                return True
        except psutil.NoSuchProcess:
            continue
    return False


def watch(app) -> None:  # noqa: ANN001 - Jupyter's server
    """Check every 30 s whether the notebook is in use, and stop it after the idle time.

    A running cell or program, terminal input and output, and a saved file count as use.
    """
    from tornado.ioloop import PeriodicCallback  # noqa: PLC0415 - the environment of the notebooks has it

    settings, kernels = app.web_app.settings, app.kernel_manager
    used = time.time()

    def saved(**_: object) -> None:
        nonlocal used
        used = time.time()

    def look() -> None:
        nonlocal used
        terminals = getattr(settings.get("terminal_manager"), "terminals", {})
        if is_busy([kernels.get_kernel(name) for name in kernels.list_kernel_ids()], terminals.values()):
            used = time.time()
        shown = [kernels.last_kernel_activity, settings.get("terminal_last_activity")]
        unused_s = time.time() - max([used, *(moment.timestamp() for moment in shown if moment)])
        if unused_s > app.shutdown_no_activity_timeout:
            app.log.warning("stopping the notebook: unused for %d s", unused_s)
            app.stop()

    app.contents_manager.register_post_save_hook(saved)
    PeriodicCallback(look, EVERY_S * 1000).start()


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "busbar_notebook"}]


def _load_jupyter_server_extension(app) -> None:  # noqa: ANN001 - Jupyter's server
    if app.shutdown_no_activity_timeout > 0:
        watch(app)


if __name__ == "__main__":
    from jupyterhub.singleuser import main

    main()
