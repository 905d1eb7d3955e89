"""A server that is started for a test ends with it, however the test ends."""

import os
import threading

STANDARD_INPUT = 0


def end_with_starter() -> None:
    """Ends this process when whoever started it closes its standard input, or is gone."""
    threading.Thread(target=_wait, daemon=True).start()


def _wait() -> None:
    # Not by `sys.stdin`, whose lock Python wants for itself when it ends.
    while os.read(STANDARD_INPUT, 1024):
        pass
    os._exit(0)
