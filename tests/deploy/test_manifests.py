"""The manifests of ``deploy/`` match the code and grant as little as possible."""

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import fairway
from fairway.cli.commands.provider import provider as provider_group
from fairway.controllers import settings
from fairway.controllers.hosting.metrics import HOSTING_DEFINITIONS
from fairway.controllers.machines.permit_metrics import MACHINE_DEFINITIONS
from fairway.controllers.placement import ocm_detection
from fairway.controllers.placement.shard import Shard
from fairway.controllers.pods.metrics import POD_DEFINITIONS
from fairway.controllers.recovery.metrics import RECOVERY_DEFINITIONS
from fairway.controllers.scores.metrics import SCORE_DEFINITIONS
from fairway.install.dashboards import DASHBOARDS
from fairway.observe.meters import DEFINITIONS, Definition
from fairway.providers.catalogue import Context
from fairway.providers.rbac import LEASE_RULES
from fairway.providers.static.provider import create as static
from rigs.restricted import known

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OVERLAYS = (".", "ocm", "shadow")
HARMLESS = frozenset({"get", "list", "watch"})


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DEPLOY / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documents(path: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / path).read_text(encoding="utf-8")))


def document(path: str) -> dict[str, Any]:
    (only,) = documents(path)
    return only


def args(overlay: str) -> list[str]:
    """Return the arguments of the container in the overlay."""
    (patch,) = document(f"{overlay}/kustomization.yaml")["patches"]
    (operation,) = yaml.safe_load(patch["patch"])
    assert operation["path"].endswith("/containers/0/args")
    arguments: list[str] = operation["value"]
    return arguments


def controllers(overlay: str) -> set[str]:
    (named,) = (arg for arg in args(overlay) if arg.startswith("--controllers="))
    return set(named.removeprefix("--controllers=").split(","))


def granted(overlay: str) -> set[str]:
    """Return the controllers whose rights the overlay has."""
    resources: set[str] = set()
    for resource in document(f"{overlay}/kustomization.yaml")["resources"]:
        if resource == "controllers":
            resources.update(document("controllers/kustomization.yaml")["resources"])
        elif "controllers/" in resource:
            resources.add(resource.rpartition("/")[2])
    return resources


def container() -> dict[str, Any]:
    (only,) = document("workload/deployment.yaml")["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def test_generated_manifests_are_current(generated: ModuleType) -> None:
    files: dict[str, str] = generated.files()
    assert {path: (DEPLOY / path).read_text(encoding="utf-8") for path in files} == files, (
        "run: python deploy/generate.py"
    )


def test_every_manifest_is_in_a_kustomization() -> None:
    listed = {
        (kustomization.parent / resource).resolve()
        for kustomization in DEPLOY.rglob("kustomization.yaml")
        for resource in yaml.safe_load(kustomization.read_text(encoding="utf-8"))["resources"]
    }
    manifests = {
        file.resolve()
        for file in DEPLOY.rglob("*.yaml")
        if file.name != "kustomization.yaml" and "helm" not in file.relative_to(DEPLOY).parts
    }
    assert manifests == {path for path in listed if path.is_file()}
    assert all(path.is_file() or (path / "kustomization.yaml").is_file() for path in listed)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_manifest_rights_match_the_running_controllers(overlay: str) -> None:
    rights = {"shadow" if "--shadow" in args(overlay) else controller for controller in controllers(overlay)}
    assert granted(overlay) == rights | {"serving"}
    assert controllers(overlay) <= settings.ALL


def test_standalone_hub_manifests_run_the_default_controllers() -> None:
    assert controllers(".") == settings.DEFAULT
    assert known() == settings.ALL | {"serving", "shadow"}


def test_manifests_beside_ocm_have_no_ocm_crds() -> None:
    definitions = {overlay: document(f"{overlay}/kustomization.yaml")["resources"] for overlay in OVERLAYS}
    assert "crds" in definitions["."]
    assert [path for path in definitions["ocm"] if "crds" in path] == ["../crds/fairway"]
    assert not [path for path in definitions["shadow"] if "crds" in path]


def test_shadow_manifests_grant_only_reads() -> None:
    role, _ = documents("controllers/shadow/rbac.yaml")
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} <= HARMLESS


def every_rule() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in [*DEPLOY.glob("controllers/*/rbac.yaml"), DEPLOY / "base/leases.yaml"]:
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            for rule in document.get("rules", ()):
                yield document["metadata"]["name"], rule


def test_no_manifest_grants_wildcards() -> None:
    for name, rule in every_rule():
        words = {word for values in rule.values() for word in values}
        assert "*" not in words, name
        assert not words & {"secrets", "impersonate", "escalate", "deletecollection"}, name
        assert "pods" not in words or name == "fairway-machines"
        # A right to bind any role would be a right to everything, so the roles are named.
        assert "bind" not in words or rule["resourceNames"], name


def test_leases_are_granted_in_the_own_namespace_only() -> None:
    role = documents("base/leases.yaml")[0]
    assert (role["kind"], role["metadata"]["namespace"]) == ("Role", settings.NAMESPACE)
    # These two write leases in the namespaces of clusters.
    others = {"fairway-acceptance", "fairway-availability"}
    for name, rule in every_rule():
        if name not in {role["metadata"]["name"], *others} and "leases" in rule["resources"]:
            assert set(rule["verbs"]) <= HARMLESS, name


def test_ocm_policy_selects_the_namespace_of_ocm_detection() -> None:
    policy, binding = documents("ocm/policy.yaml")
    constraints = policy["spec"]["matchConstraints"]
    selected = constraints["namespaceSelector"]["matchLabels"]
    assert selected == {"kubernetes.io/metadata.name": ocm_detection.NAMESPACE}
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]


def test_pods_of_manifests_are_restricted() -> None:
    spec = document("workload/deployment.yaml")["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    namespace = documents("base/account.yaml")[0]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    # The only writable volumes, so they must be bounded.
    assert [(volume["name"], volume["emptyDir"]["sizeLimit"]) for volume in spec["volumes"]] == [
        ("tmp", "16Mi")
    ]


def test_deployment_has_two_replicas_and_a_disruption_budget() -> None:
    deployment, budget = document("workload/deployment.yaml"), document("base/disruption.yaml")
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"] == deployment["spec"]["selector"]


def test_manifest_ports_are_the_defaults_of_run() -> None:
    from fairway.cli.options import serving

    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert {name: f":{port}" for name, port in ports.items()} == {
        "health": serving.HEALTH,
        "metrics": serving.METRICS,
        "debug": serving.DEBUG,
    }
    targets = [port for service in documents("base/services.yaml") for port in service["spec"]["ports"]]
    assert {target["name"]: target["port"] for target in targets} == {
        name: ports[name] for name in ("metrics", "debug")
    }
    assert {container()[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {
        "health"
    }
    (ingress,) = document("base/network.yaml")["spec"]["ingress"]
    assert {port["port"] for port in ingress["ports"]} == set(ports)


def test_service_monitor_selects_the_service() -> None:
    monitor = document("monitoring/servicemonitor.yaml")["spec"]
    (selected,) = (
        service
        for service in documents("base/services.yaml")
        if monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    )
    assert {endpoint["port"] for endpoint in monitor["endpoints"]} == {
        port["name"] for port in selected["spec"]["ports"]
    }


def by_name() -> dict[str, Definition]:
    definitions = (
        *DEFINITIONS,
        *HOSTING_DEFINITIONS,
        *MACHINE_DEFINITIONS,
        *POD_DEFINITIONS,
        *RECOVERY_DEFINITIONS,
        *SCORE_DEFINITIONS,
    )
    return {definition.name: definition for definition in definitions}


def check_query(query: str, *texts: str) -> None:
    """Check that metrics exist, with the labels by which they are selected, grouped and shown."""
    names = {re.sub("_bucket$", "", name) for name in re.findall(r"fairway_\w+", query)}
    assert names, query
    assert names <= by_name().keys(), query
    known_labels = {"namespace", "pod", "le"}.union(*(by_name()[name].labels for name in names))
    for grouped in re.findall(r"(?:by|on) \(([^)]*)\)", query):
        assert set(grouped.split(", ")) <= known_labels, query
    for selector in re.findall(r"\{([^}]*)\}", query):
        assert set(re.findall(r"(\w+)(?:=~|!~|!=|=)", selector)) <= known_labels, query
    for text in texts:
        shown = re.findall(r"\$labels\.(\w+)|\{\{(\w+)\}\}", text)
        assert {one or other for one, other in shown} <= known_labels, text


def test_alerts_use_existing_metrics() -> None:
    (group,) = document("monitoring/alerts.yaml")["spec"]["groups"]
    for rule in group["rules"]:
        check_query(rule["expr"], *rule["annotations"].values())


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_dashboards_use_existing_metrics(uid: str) -> None:
    panels = json.loads((DEPLOY / f"monitoring/{uid}.json").read_text(encoding="utf-8"))["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(panels)
    for panel in panels:
        assert panel["description"]
        for target in panel["targets"]:
            check_query(target["expr"], target["legendFormat"])


def test_runbook_has_a_section_for_each_alert() -> None:
    (group,) = document("monitoring/alerts.yaml")["spec"]["groups"]
    alerts = [rule["alert"] for rule in group["rules"]]
    runbook = (ROOT / "docs/how-to/runbook.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", runbook, re.MULTILINE) == alerts
    for rule in group["rules"]:
        assert rule["annotations"]["runbook"] == f"docs/how-to/runbook.md#{rule['alert'].lower()}"


@pytest.mark.parametrize("controller", sorted(settings.ALL))
def test_queue_alert_uses_the_lease_of_the_controller(controller: str) -> None:
    """A process may lead with one lease and wait for the others; only the queue of the held lease counts."""
    (group,) = document("monitoring/alerts.yaml")["spec"]["groups"]
    (expression,) = (rule["expr"] for rule in group["rules"] if rule["alert"] == "FairwayQueueGrows")
    placing = {shard.lease for shard in (Shard(), Shard(index=1, count=3))}
    leases = {*placing, *(settings.lease_of(name) for name in settings.ALL - {settings.PLACEMENT})}
    own = placing if controller == settings.PLACEMENT else {settings.lease_of(controller)}
    held: set[str] = set()
    for part in re.split(r"\bor\b", expression):
        if "workqueue_depth{" in part and selects(part, "controller", controller):
            held |= {name for name in leases if selects(part, "lease", name)}
            # Among several leases, the one of the controller counts.
            if "label_replace" in part:
                held &= {f"fairway-{controller}"}
    assert held == own


def selects(query: str, label: str, value: str) -> bool:
    """Return whether the matcher of a label in a query selects a value."""
    ((operator, pattern),) = re.findall(rf'\{{{label}(=~|!~|!=|=)"([^"]+)"\}}', query)
    matches = re.fullmatch(pattern if "~" in operator else re.escape(pattern), value) is not None
    return matches is not str(operator).startswith("!")


def test_manifest_image_has_the_package_version() -> None:
    assert container()["image"] == f"fairway:{fairway.__version__}"
    assert f"-t fairway:{fairway.__version__} ." in (DEPLOY / "Containerfile").read_text(encoding="utf-8")


def test_hub_provider_manifest_names_an_existing_provider() -> None:
    (config,) = documents("providers/config.yaml")
    given = yaml.safe_load(config["data"]["provider.yaml"])
    provider = static(given, Context(name="static"))
    assert [(provider.name, provider.resource)] == [("cost", "cost-score")]


def test_hub_provider_manifest_grants_its_lease() -> None:
    _, role, _ = documents("providers/account.yaml")
    (rule,) = LEASE_RULES
    assert [(rule["apiGroups"], rule["resources"], sorted(rule["verbs"])) for rule in role["rules"]] == [
        (list(rule.groups), list(rule.resources), sorted(rule.verbs))
    ]


def test_hub_provider_manifest_has_valid_arguments() -> None:
    (container,) = document("providers/deployment.yaml")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"fairway:{fairway.__version__}"
    assert container["command"] == ["fairway", "provider", "run"]
    options = {name for param in provider_group.commands["run"].params for name in param.opts}
    assert {arg.partition("=")[0] for arg in container["args"] if arg.startswith("--")} <= options
