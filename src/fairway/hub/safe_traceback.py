"""What may be logged of a failure: where and what. Never its words, which may quote an object."""

import traceback


def format_traceback(error: BaseException) -> str:
    """The places it came through and its type, each on a line of its own."""
    return "".join(traceback.format_tb(error.__traceback__)) + type(error).__qualname__
