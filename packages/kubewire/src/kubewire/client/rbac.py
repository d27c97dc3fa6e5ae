"""Permissions that a component needs, kept beside its code; tests compare them with what is granted."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of a ClusterRole: verbs on resources of groups, restricted to ``names`` if there are any."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The JSON form in a Role or ClusterRole."""
        names = {"resourceNames": list(self.names)} if self.names else {}
        return {
            "apiGroups": list(self.groups),
            "resources": list(self.resources),
            **names,
            "verbs": list(self.verbs),
        }
