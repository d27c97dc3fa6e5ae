"""Rights that something needs on a Kubernetes API, kept beside its code: what is granted is compared with this."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """As in a ClusterRole: these verbs, on these resources of these groups; if names are given, only on those."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
