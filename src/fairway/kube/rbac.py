"""Permissions that a component needs, kept beside its code; tests compare them with what is granted."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """As in a ClusterRole: these verbs, on these resources of these groups; if names are given, only on those."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As a Role or ClusterRole has it on the wire."""
        names = {"resourceNames": list(self.names)} if self.names else {}
        return {
            "apiGroups": list(self.groups),
            "resources": list(self.resources),
            **names,
            "verbs": list(self.verbs),
        }
