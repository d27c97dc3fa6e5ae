"""Each package documents itself, and its public names are pinned."""

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import fairway

EXPORTS = {
    "controllers.acceptance": ["AcceptanceController", "RULES"],
    "controllers.addons": ["AddOnController", "RULES"],
    "controllers.availability": ["AvailabilityController", "RULES"],
    "controllers.bridge": ["BridgeController", "BridgeOptions", "BridgeOptionsError", "RULES", "Range"],
    "controllers.clustersets": ["ClusterSetController", "RULES"],
    "controllers.hosting": ["HostingController", "RULES"],
    "controllers.machines": ["MachinesController", "RULES"],
    "controllers.placement": ["PlacementController"],
    "controllers.pods": ["PodScheduling", "RULES"],
    "controllers.recovery": [
        *("Budget", "HealthSource", "RULES", "RecoveryController", "RecoveryPolicy"),
        *("RecoveryPolicyError",),
    ],
    "controllers.scores": [
        *("Orphans", "RULES", "ScoreController", "Silence", "SilencePolicy", "SilencePolicyError")
    ],
    "controllers.serving": [
        *("Address", "CertificateError", "CertificateFiles", "DebugServer", "Inspector", "Ports"),
        *("RULES", "ask_locally", "document", "open_ports", "serving_locally"),
    ],
    "workloads.hosting": [
        *("Adoption", "AdoptionPlan", "ExistingHostedCluster", "Loss", "lose", "plan_adoption"),
        *("Capacity", "Decision", "Demand", "DemandError", "Evacuation", "HostFacts", "HostingSpec"),
        *(
            "HostingState",
            "Policy",
            "Proof",
            "Resident",
            "Telemetry",
            "Unknown",
            "capacity_of",
            "changes_that_fit",
        ),
        *(
            "Move",
            "MovePlan",
            "decision_of",
            "demand_of",
            "drain",
            "host_key",
            "hosting_registry",
            "default_profile",
            "HOSTING_KIND",
        ),
        *("place", "policy_of", "HostReport", "rebalance", "reports", "violations"),
    ],
    "klusterlet.works": ["RULES_CLUSTER", "RULES_HUB", "RULES_HUB_TTL", "WorkAgent", "hub_hash"],
    "providers": [
        *("ClusterProvider", "Context", "DefinitionError", "Direct", "FleetProvider"),
        *("FleetScale", "Inverted", "Linear", "Logarithmic", "OptionsError", "Provider"),
        *("ProviderError", "Quantile", "Reading", "Runner", "Scale", "Score", "Settings"),
        *("Spread", "Wake", "fleet_provider", "provider", "running"),
    ],
    "providers.health": ["Health", "HealthOptions", "RULES", "health"],
    "providers.hosted": ["HostedClusters", "NAME", "RESOURCE", "RULES", "owned_rules"],
    "providers.usage": ["RULES", "ResourceUsage", "UsageOptions", "resource_usage"],
    "scheduling": [
        "KINDS",
        "ConfigurationError",
        "FaultReport",
        "Scheduling",
        "Supervisor",
        "Watchdog",
        "load",
    ],
    "engine": [
        *(
            "Code",
            "Context",
            "Memory",
            "Outcome",
            "Profile",
            "ProfileSpec",
            "Reads",
            "Registry",
            "Status",
            "Timeless",
            "Trace",
            "Weighted",
            "WorkKind",
            "build_profile",
        )
    ],
    "engine.commit": [
        *("ACTIVATE", "CommitMachine", "CommitPlugins", "Instruction", "LATE_BIND", "LONGEST_WAIT"),
        *("Phase", "perform"),
    ],
    "engine.ledger": [
        *(
            "Earmark",
            "HostAccount",
            "InsufficientCapacity",
            "Ledger",
            "LedgerColumns",
            "LedgerError",
        ),
        *("Shortage", "Speculation", "Transaction"),
    ],
    "engine.queue": [
        *("Backoff", "Explanation", "FLUSH_AFTER", "PrioritySort", "Rejection", "RetryLimit"),
        *("SchedulingQueue", "State", "rejections_of"),
    ],
    "hosts.clusters": ["ClusterSnapshot", "Fleet", "clusters_of"],
    "hosts": ["Snapshot", "Table"],
    "workloads.machines": [
        *(
            "Candidate",
            "Demand",
            "Event",
            "Instruction",
            "Machine",
            "MachinePolicy",
            "MachineState",
            "Migration",
        ),
        *("Migrator", "Move", "Observation", "Permit", "PermitError", "PermitRequest", "Phase", "Plan"),
        *("PolicyError", "Proof", "SimulatedMigrator", "Stage", "TargetOracle", "Targets", "decode_request"),
        "encode_reply",
    ],
    "hosts.nodes": ["NodeFleet", "NodeSnapshot"],
    "observe": ["logs", "meters", "provider_meters", "traces"],
    "workloads.pods": ["POD_PLUGINS", "default_profile", "pod_registry", "pod_workload"],
    "workloads.placement": ["PlacementWorkload", "default_profile", "placement_registry"],
    "testing": ["builders", "hub", "plugin"],
    "whatif": ["World"],
    "simulation.synthetic": ["BASE_TIME", "NAMESPACES", "generate"],
    "lint": ["RULES", "Finding", "Rule", "Severity", "identity_of", "lint"],
}


def full_name(package: str) -> str:
    return package if package.startswith("kube") else f"fairway.{package}"


@pytest.mark.parametrize("package", EXPORTS)
def test_exports_are_pinned_and_exist(package: str) -> None:
    module = import_module(full_name(package))
    assert sorted(module.__all__) == sorted(EXPORTS[package])
    for name in module.__all__:
        assert hasattr(module, name) or import_module(f"{full_name(package)}.{name}")


def test_api_exports_every_kind() -> None:
    api = import_module("fairway.api")
    written = {kind.__name__ for kind in api.KINDS.values()} - {"PlacementV1Alpha1"}  # only read
    assert written <= set(api.__all__)
    assert all(hasattr(api, name) for name in api.__all__)


@pytest.mark.parametrize(
    "package",
    [
        *("api", "controllers", "controllers.runtime", "engine", "hosts", "hosts.clusters", "hosts.nodes"),
        *("klusterlet", "klusterlet.works", "kubecel", "kubehub", "kubewire", "kubewire.api"),
        *("kubewire.client", "kubewire.documents", "observe", "providers", "testing", "whatif", "workloads"),
        *(f"workloads.{kind}" for kind in ("hosting", "machines", "placement", "pods")),
        "workloads.placement.plugins",
        *(name for name in EXPORTS if name.startswith(("controllers.", "engine.", "providers."))),
    ],
)
def test_package_documents_its_modules(package: str) -> None:
    text = import_module(full_name(package)).__doc__ or ""
    assert len(text.splitlines()) >= 5


HUB_MODULES = {
    *("kubehub", "kubehub.controllers", "kubehub.authn.bootstrap_account", "kubehub.backup"),
    *("kubehub.key_replacement", "kubehub.portable", "kubehub.schemas.formats"),
    *("kubehub.storage.archive", "kubehub.testing.hub"),
}
"""The modules of the hub that Fairway imports: its exports, its tools for data folders, and its support for tests."""


def test_fairway_imports_only_public_modules_of_the_hub() -> None:
    imported = set()
    for file in Path(fairway.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kubehub"):
                is_package = find_spec(node.module).submodule_search_locations is not None  # type: ignore[union-attr]
                for alias in node.names:
                    name = f"{node.module}.{alias.name}"
                    imported.add(name if is_package and find_spec(name) else node.module)
    assert imported == HUB_MODULES
