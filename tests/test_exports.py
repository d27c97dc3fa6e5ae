"""Each package documents itself, and its public names are pinned."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import fairway

EXPORTS = {
    "cel": [
        *("CLUSTER_VARIABLE", "CelError", "CompileError", "CompileWorkExceeded", "CostLimitExceeded"),
        *("DEFAULT_COST_LIMIT", "DEFAULT_LIBRARIES", "DEFAULT_WORK_LIMIT", "Dialect", "Environment"),
        *("EvaluationError", "Function", "InstantiationError", "Library", "Outcome", "Overload", "Program"),
        *("ScoreSource", "Type", "Withheld", "WorkLimitExceeded", "cluster_environment", "rule_environment"),
    ],
    "controllers.acceptance": ["AcceptanceController", "RULES"],
    "controllers.addons": ["AddOnController", "RULES"],
    "controllers.availability": ["AvailabilityController", "RULES"],
    "controllers.bridge": ["BridgeController", "BridgeOptions", "BridgeOptionsError", "RULES", "Range"],
    "controllers.clustersets": ["ClusterSetController", "RULES"],
    "controllers.hosting": ["HostingController", "RULES"],
    "controllers.machines": ["MachinesController", "RULES"],
    "controllers.placement": ["PlacementController"],
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
    "hosting": [
        *("Capacity", "Decision", "Demand", "DemandError", "Evacuation", "HostFacts", "HostingSpec"),
        *("HostingState", "Policy", "Resident", "Telemetry", "Unknown", "capacity_of", "changes_that_fit"),
        *("Move", "MovePlan", "decision_of", "demand_of", "drain", "host_key", "hosting_profile"),
        *("place", "policy_of", "HostReport", "rebalance", "reports", "violations"),
    ],
    "klusterlet.works": ["RULES_CLUSTER", "RULES_HUB", "RULES_HUB_TTL", "WorkAgent", "hub_hash"],
    "kube": [
        *("ADD_ON_DEPLOYMENT_CONFIGS", "ADD_ON_PLACEMENT_SCORES", "ADD_ON_TEMPLATES"),
        *("APPLIED_MANIFEST_WORKS", "Added", "AlreadyExists", "ApiError", "Backoff", "BadRequest"),
        *("Batch", "CLUSTER_CLAIMS", "CLUSTER_MANAGEMENT_ADD_ONS", "Change", "Client", "Clock"),
        *("ConfigError", "Conflict", "Connection", "CredentialError", "Deleted", "Elector"),
        *(
            "Expired",
            "Fence",
            "Forbidden",
            "HOSTED_CLUSTER_REQUESTS",
            "HOSTING_POLICIES",
            "HubEvents",
            "HubLease",
            "Informer",
            "Invalid",
        ),
        *("KubeError", "Kubeconfig", "LeaderError", "LeaseThread", "Listing", "Lost"),
        *("MANAGED_CLUSTERS", "MANAGED_CLUSTER_ADD_ONS", "MANAGED_CLUSTER_SCORES"),
        *("MANAGED_CLUSTER_SETS", "MANAGED_CLUSTER_SET_BINDINGS", "MANIFEST_WORKS", "NotFound"),
        *("PLACEMENTS", "PLACEMENT_DECISIONS", "Patch", "Recorder", "Resource", "SYSTEM_CLOCK"),
        *("ServerError", "SystemClock", "Timing", "TokenBucket", "TooManyRequests"),
        *("TransportError", "Unauthorized", "Unconfirmed", "Updated", "WorkQueue", "load"),
    ],
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
        "PLACEMENT_BESIDE_PODS",
        "PLACEMENT_DEFAULTS",
        "POD_DEFAULTS",
        "POD_PROFILE",
        "Base",
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
            "Entry",
            "HostAccount",
            "InsufficientCapacity",
            "Ledger",
            "LedgerColumns",
            "LedgerError",
        ),
        *("Recorded", "Reservation", "Shortage", "Speculation", "StaleEpoch", "Transaction"),
    ],
    "engine.queue": [
        *("Backoff", "Explanation", "FLUSH_AFTER", "PrioritySort", "Rejection", "RetryLimit"),
        *("SchedulingQueue", "State", "rejections_of"),
    ],
    "clusters": ["ClusterSnapshot", "Fleet", "clusters_of"],
    "fleet": ["Snapshot", "Table"],
    "hub": [
        *("CHANGES_KEPT", "CertificateFault", "Document", "Hub", "RENEWAL_SECONDS", "Settings"),
        *("StaticTokens", "StoreError", "TokenFileFault", "running"),
    ],
    "machines": [
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
        *("PolicyError", "SimulatedMigrator", "Stage", "TargetOracle", "Targets", "decode_request"),
        *("encode_reply", "plan_moves"),
    ],
    "nodes": ["NodeFleet", "NodeSnapshot"],
    "observe": ["logs", "meters", "provider_meters", "traces"],
    "placement": ["PlacementWorkload", "default_profile", "placement_registry"],
    "testing": ["background", "builders", "hub", "plugin"],
    "whatif": ["World"],
    "whatif.synthetic": ["BASE_TIME", "NAMESPACES", "generate"],
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
    "package",
    [
        *(
            "api",
            "cel",
            "clusters",
            "controllers",
            "engine",
            "fleet",
            "hub",
            "klusterlet",
            "klusterlet.works",
            "kube",
            "nodes",
        ),
        *("observe", "plugins", "providers", "testing", "whatif"),
        *(each for each in EXPORTS if each.startswith(("controllers.", "engine.", "providers."))),
    ],
)
def test_package_documents_its_modules(package: str) -> None:
    text = import_module(f"fairway.{package}").__doc__ or ""
    assert len(text.splitlines()) >= 5


HUB_MODULES = {
    *("fairway.hub", "fairway.hub.controllers", "fairway.hub.authn.bootstrap_account", "fairway.hub.backup"),
    *("fairway.hub.key_replacement", "fairway.hub.portable", "fairway.hub.schemas.formats"),
    "fairway.hub.storage.archive",
}
"""The modules of the hub that other layers import: its exports, and its tools for data folders."""


def test_other_layers_import_only_public_modules_of_the_hub() -> None:
    source = Path(fairway.__file__).parent
    imported = set()
    for file in source.rglob("*.py"):
        if file.is_relative_to(source / "hub"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fairway.hub"):
                for each in node.names:
                    name = f"{node.module}.{each.name}"
                    path = source.parent.joinpath(*name.split("."))
                    is_module = path.is_dir() or path.with_suffix(".py").is_file()
                    imported.add(name if is_module else node.module)
    assert imported == HUB_MODULES
