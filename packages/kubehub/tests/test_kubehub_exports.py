"""The public names of kubehub are pinned: one more or less is a change for its users."""

from importlib import import_module

import pytest

EXPORTS = {
    "kubehub": """
        CHANGES_KEPT CertificateFault Document Hub RENEWAL_SECONDS Settings StaticTokens StoreError
        TokenFileFault __version__ running
    """,
    "kubehub.testing": """
        HubAddress embedded_hub hub_in_thread
    """,
}


@pytest.mark.parametrize("package", EXPORTS)
def test_public_names_are_pinned_and_exist(package: str) -> None:
    module = import_module(package)
    assert sorted(module.__all__) == EXPORTS[package].split()
    assert all(hasattr(module, name) for name in module.__all__)
