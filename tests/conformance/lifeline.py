"""Makes a server end together with the test that started it, even if the test is killed."""

import os
import threading

STANDARD_INPUT = 0


def end_with_starter() -> None:
    """Ends this process when its standard input is closed, which also happens when the parent process ends."""
    threading.Thread(target=_wait, daemon=True).start()


def _wait() -> None:
    # Doesn't read `sys.stdin`, because Python needs its lock at exit.
    while os.read(STANDARD_INPUT, 1024):
        pass
    os._exit(0)
