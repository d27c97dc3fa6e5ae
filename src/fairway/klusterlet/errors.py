"""Errors that end a klusterlet. Everything else is retried."""


class KlusterletError(Exception):
    """Base class of this package's errors."""


class StateError(KlusterletError):
    """The state folder is invalid, or of another cluster."""


class Refused(KlusterletError):
    """The hub rejected this cluster."""
