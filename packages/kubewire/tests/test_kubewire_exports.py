"""The public names of kubewire are pinned: one more or less is a change for its users."""

from importlib import import_module

import pytest

EXPORTS = {
    "kubewire": """
        __version__
    """,
    "kubewire.api": """
        Column Condition CustomResource LabelSelector LabelSelectorRequirement Lease LeaseSpec MicroTime
        ObjectMeta OwnerReference Quantity QuantityError Requirement Resource SELECT_EVERYTHING SELECT_NOTHING
        Selector SelectorError Version compile_requirements compile_selector crd encode find_condition
        format_micro_time format_time quantity_float set_condition
    """,
    "kubewire.client": """
        Added AlreadyExists ApiError Backoff BadRequest Batch Change Client Clock ConfigError Conflict
        Connection CredentialError Deleted Elector Expired Fence Forbidden HubEvents HubLease Index Informer
        Invalid KubeError Kubeconfig LeaderError LeaseThread Listing Lost NotFound Patch Recorder Resource
        SYSTEM_CLOCK ServerError SystemClock Timing TokenBucket TooManyRequests TransportError Unauthorized
        Unconfirmed Updated WorkQueue load
    """,
    "kubewire.inbound": """
        Gate GuardedTls Place peer_of
    """,
}


@pytest.mark.parametrize("package", EXPORTS)
def test_public_names_are_pinned_and_exist(package: str) -> None:
    module = import_module(package)
    assert sorted(module.__all__) == EXPORTS[package].split()
    assert all(hasattr(module, name) for name in module.__all__)
