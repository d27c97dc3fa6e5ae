"""The version of kubehub, apart from its public names so that its own modules can import it."""

from typing import Final

VERSION: Final = "0.1.0"
