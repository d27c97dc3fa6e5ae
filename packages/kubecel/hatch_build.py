"""Depend on the neighbouring packages of a checkout, and on their releases outside of one."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class Neighbours(MetadataHookInterface):
    """So `pip install` of this folder needs no index for the packages beside it."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        requirements = list(self.config["dependencies"])
        for requirement, folder in self.config["neighbours"].items():
            path = (Path(self.root) / folder).resolve()
            is_there = (path / "pyproject.toml").is_file()
            requirements.append(
                f"{requirement} @ {path.as_uri()}" if is_there else f"{requirement}=={metadata['version']}"
            )
        metadata["dependencies"] = requirements


class Releases(BuildHookInterface):  # type: ignore[type-arg]
    """An sdist leaves its neighbours behind: it, and the wheels that are built from it, depend on their releases."""

    PLUGIN_NAME = "custom"

    def initialize(self, _version: str, _build_data: dict[str, Any]) -> None:
        core, settings = self.metadata.core, self.metadata.hatch.metadata.hook_config["custom"]
        releases = [f"{requirement}=={self.metadata.version}" for requirement in settings["neighbours"]]
        core.config["dependencies"] = [*settings["dependencies"], *releases]
        # Hatchling validated the metadata before, and remembers what it read. Wheels take theirs from the sdist's.
        core._dependencies = core._dependencies_complex = None
