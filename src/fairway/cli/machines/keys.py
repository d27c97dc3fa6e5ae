"""The key that ends a view on a terminal."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

QUIT: Final = b"qQ"


@contextmanager
def quit_key() -> Iterator[asyncio.Event]:
    """Yield an event that the key `q` sets, without Enter. It is never set if stdin is not the terminal in use."""
    quitting = asyncio.Event()
    if not sys.stdin.isatty():
        yield quitting
        return
    terminal = sys.stdin.fileno()
    # The terminal stops a background job that changes its settings.
    if os.tcgetpgrp(terminal) != os.getpgrp():
        yield quitting
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        keys = os.read(terminal, 1024)
        if not keys:
            loop.remove_reader(terminal)  # the terminal was closed; it would stay readable
        elif any(key in QUIT for key in keys):
            quitting.set()

    before = termios.tcgetattr(terminal)
    # Ctrl-C stays a signal.
    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield quitting
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
