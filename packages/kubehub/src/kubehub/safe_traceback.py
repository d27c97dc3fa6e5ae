"""Format a traceback without its message, which may contain object data."""

import traceback


def format_traceback(error: BaseException) -> str:
    """Return the stack and the type of the error, each on a line of its own."""
    return "".join(traceback.format_tb(error.__traceback__)) + type(error).__qualname__
