"""What goes on in the hub by itself: garbage collection, namespaces ending, accounts, signatures, expiry.

Each part can be switched off, for when kube-controller-manager does the same against this hub.
"""

from typing import Final

COLLECTOR: Final = "garbage-collector"
NAMESPACES: Final = "namespace"
ACCOUNTS: Final = "serviceaccount"
ROOT_CA: Final = "root-ca-cert-publisher"
TOKENS: Final = "serviceaccount-token"
SIGNER: Final = "csrsigning"
AGGREGATION: Final = "clusterrole-aggregation-controller"
EXPIRY: Final = "event-expiry"
DEFINITIONS: Final = "customresourcedefinitions"

ALL: Final = frozenset(
    {COLLECTOR, NAMESPACES, ACCOUNTS, ROOT_CA, TOKENS, SIGNER, AGGREGATION, EXPIRY, DEFINITIONS}
)
"""Under the names kube-controller-manager has for them, where it has one."""
