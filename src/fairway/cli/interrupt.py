"""End quietly on Ctrl-C while the command line is imported, when there is nothing to clean up."""

import os
import signal

# No Final, no FrameType: until this module is imported, Ctrl-C ends in a traceback, and typing takes longest of all.
INTERRUPTED = "fairway: interrupted"
EXIT_INTERRUPTED = 130


def exit_on_interrupt() -> None:
    """Exit on SIGINT. A KeyboardInterrupt would end imports with a traceback, or with an error of numpy's."""
    # SIGINT is ignored in background jobs of a shell without job control, and stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_on_interrupt() -> None:
    """Raise KeyboardInterrupt on SIGINT again, from when a command starts its work."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(_number: int, _frame: object) -> None:
    os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(EXIT_INTERRUPTED)
