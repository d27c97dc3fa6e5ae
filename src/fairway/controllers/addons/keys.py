"""Keys of the add-on controller's queue, one type for each kind. Log lines show them as text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AddOnKey:
    """A ManagedClusterAddOn, or what is left of it."""

    cluster: str
    name: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.name}"


@dataclass(frozen=True, slots=True)
class OfferKey:
    """A ClusterManagementAddOn."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ClusterKey:
    """The add-on labels of a ManagedCluster."""

    name: str

    def __str__(self) -> str:
        return f":cluster/{self.name}"


@dataclass(frozen=True, slots=True)
class CsrKey:
    """A CertificateSigningRequest."""

    name: str

    def __str__(self) -> str:
        return f":request/{self.name}"


@dataclass(frozen=True, slots=True)
class OrphanedWorksKey:
    """The ManifestWorks of deleted add-ons on a cluster."""

    cluster: str

    def __str__(self) -> str:
        return f":waiting/{self.cluster}"


@dataclass(frozen=True, slots=True)
class OcmLeaseKey:
    """The lease of OCM's addon-manager: while it is valid, Fairway's controller waits."""

    def __str__(self) -> str:
        return ":ocm"


AddOnsKey = AddOnKey | OfferKey | ClusterKey | CsrKey | OrphanedWorksKey | OcmLeaseKey
