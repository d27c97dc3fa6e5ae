"""Keys of the acceptance controller's queue, one type for each kind. Log lines show them as text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterKey:
    """A ManagedCluster, or what is left of it."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class RoleKey:
    """A ClusterRole that all agents share."""

    name: str

    def __str__(self) -> str:
        return f"ClusterRole/{self.name}"


@dataclass(frozen=True, slots=True)
class CsrKey:
    """A CertificateSigningRequest."""

    name: str

    def __str__(self) -> str:
        return f"CertificateSigningRequest/{self.name}"


@dataclass(frozen=True, slots=True)
class OcmLeaseKey:
    """The lease of OCM's controller: while it is valid, Fairway's waits."""

    def __str__(self) -> str:
        return "Lease"


AcceptanceKey = ClusterKey | RoleKey | CsrKey | OcmLeaseKey
