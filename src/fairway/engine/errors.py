"""Errors of the engine that a caller may catch."""


class EngineError(Exception):
    """Base of the errors that the engine raises on purpose."""


class ProfileError(EngineError):
    """A profile that cannot be built. ``plugin`` and ``point`` are empty where the error concerns none."""

    def __init__(self, message: str, *, plugin: str = "", point: str = "") -> None:
        super().__init__(message)
        self.plugin = plugin
        self.point = point


class UnknownPluginError(ProfileError):
    """No plugin of this name is registered."""


class DuplicatePluginError(ProfileError):
    """Another plugin of this name is registered."""


class PluginArgsError(ProfileError):
    """A plugin did not accept its arguments."""
