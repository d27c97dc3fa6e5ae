"""Errors that end a klusterlet. Everything else is retried."""


class KlusterletError(Exception):
    """The base of everything this package raises on purpose."""


class StateError(KlusterletError):
    """What is kept in the state folder cannot be used for this cluster."""


class Refused(KlusterletError):
    """Somebody on the hub decided against this cluster."""
