"""The controllers that run inside the hub. Each has the name of its counterpart in kube-controller-manager, if any.

``hub.Hub`` starts one ``controller.Controller`` per name in ``Settings.controllers``; leave a name out if
kube-controller-manager does the same work against this hub. The store calls ``on_change`` within every commit, which
only queues keys; ``reconcile`` then processes them one at a time and is retried with backoff.
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
