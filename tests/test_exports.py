"""Each package documents itself, and its public names are pinned."""

from importlib import import_module

import pytest

EXPORTS = {
    "cel": [
        *("CLUSTER_VARIABLE", "CelError", "CompileError", "CompileWorkExceeded", "CostLimitExceeded"),
        *("DEFAULT_COST_LIMIT", "DEFAULT_LIBRARIES", "DEFAULT_WORK_LIMIT", "Dialect", "Environment"),
        *("EvaluationError", "Function", "InstantiationError", "Library", "Outcome", "Overload", "Program"),
        *("ScoreSource", "Type", "Withheld", "WorkLimitExceeded", "cluster_environment", "rule_environment"),
    ],
    "engine": [
        *(
            "Code",
            "Context",
            "Memory",
            "Outcome",
            "Profile",
            "Reads",
            "Status",
            "Timeless",
            "Trace",
            "Weighted",
        ),
    ],
    "fleet": ["Fleet", "Snapshot"],
    "hub": [
        *("CHANGES_KEPT", "CertificateFault", "Document", "Hub", "NAMESPACES", "RENEWAL_SECONDS", "Settings"),
        *("StaticTokens", "StoreError", "TokenFileFault", "running"),
    ],
    "observe": ["logs", "meters", "provider_meters", "traces"],
    "plugins": ["PlacementWorkload", "profile_of"],
    "testing": ["background", "builders", "hub", "plugin"],
    "whatif": ["World"],
    "whatif.lint": ["RULES", "Finding", "Rule", "Severity", "identity_of", "lint"],
}


@pytest.mark.parametrize("package", EXPORTS)
def test_exports_are_pinned_and_exist(package: str) -> None:
    module = import_module(f"fairway.{package}")
    assert sorted(module.__all__) == sorted(EXPORTS[package])
    for name in module.__all__:
        assert hasattr(module, name) or import_module(f"fairway.{package}.{name}")


def test_api_exports_every_kind() -> None:
    api = import_module("fairway.api")
    written = {kind.__name__ for kind in api.KINDS.values()} - {"PlacementV1Alpha1"}  # only read
    assert written <= set(api.__all__)
    assert all(hasattr(api, name) for name in api.__all__)


@pytest.mark.parametrize(
    "package", ["api", "cel", "engine", "fleet", "hub", "observe", "plugins", "testing", "whatif"]
)
def test_package_documents_its_modules(package: str) -> None:
    text = import_module(f"fairway.{package}").__doc__ or ""
    assert len(text.splitlines()) >= 5
