"""Distinguish a user's Ctrl-C from a KeyboardInterrupt that a plugin raises."""

import signal
import threading
from types import FrameType
from typing import Any, NoReturn


class Interrupts:
    """Notes while its block runs whether the user interrupted the command, and then ends the block so.

    Only where Python's own handler is set: a process that handles SIGINT itself raises no KeyboardInterrupt.
    """

    __slots__ = ("_arrived", "_installed")

    def __init__(self) -> None:
        self._arrived = self._installed = False

    def __enter__(self) -> None:
        if (
            signal.getsignal(signal.SIGINT) is signal.default_int_handler
            and threading.current_thread() is threading.main_thread()
        ):
            signal.signal(signal.SIGINT, self._interrupt)
            self._installed = True

    def __exit__(self, *_error: Any) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if self._arrived:  # whatever the plugin made of it
                raise KeyboardInterrupt

    def _interrupt(self, _number: int, _frame: FrameType | None) -> NoReturn:
        self._arrived = True
        raise KeyboardInterrupt
