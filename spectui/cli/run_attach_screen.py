"""The screen of ``spectui attach``, in a terminal that stays usable whatever happens."""

import os

from spectui.cli.failure import report_failure
from spectui.cli.guard import greet, in_child, let_end, take_back_greeting
from spectui.cli.run_attach import Wanted
from spectui.errors import UsageError
from spectui.paths import data_dir, ensure_dir
from spectui.server.watch.poller import Attachment
from spectui.settings import read_settings


def show(attachment: Attachment, wanted: Wanted) -> None:
    """Show the screen until the user quits.

    Raises:
        UsageError: there is no terminal.
    """
    settings = read_settings()
    log = ensure_dir(data_dir() / "logs") / "spectui.log"
    if not in_child():
        raise UsageError(
            "the interactive screen needs a terminal; run spectui attach in one, or give --once "
            "in scripts"
        )
    greet()
    try:
        from spectui.tui.attach.app import AttachApp, AttachLaunch
        from spectui.tui.terminal import private_terminal
    except BaseException:
        take_back_greeting()
        raise
    launch = AttachLaunch(
        attachment=attachment,
        interval_s=wanted.interval_s,
        settings=settings,
        theme=wanted.theme,
        ascii=wanted.ascii,
    )
    with private_terminal(log):
        app = AttachApp(launch)
        app.run()
    let_end()
    app.close()
    code = app.return_code or 0 if app.crash is None else report_failure(app.crash)
    # A thread may still be inside a driver or a resolver that nobody waits for any more.
    os._exit(code)
