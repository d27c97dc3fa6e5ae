"""The manifests of ``deploy/`` match the code and grant as little as possible."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import fairway
from fairway.cli.provider.command import provider as provider_group
from fairway.controllers import settings
from fairway.controllers.placement import ocm_detection
from fairway.controllers.placement.shard import Shard
from fairway.observe.meters import DEFINITIONS
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
    (found,) = documents(path)
    return found


def args(overlay: str) -> list[str]:
    """Return the arguments of the container in the overlay."""
    (patch,) = document(f"{overlay}/kustomization.yaml")["patches"]
    (operation,) = yaml.safe_load(patch["patch"])
    assert operation["path"].endswith("/containers/0/args")
    found: list[str] = operation["value"]
    return found


def controllers(overlay: str) -> set[str]:
    (named,) = (each for each in args(overlay) if each.startswith("--controllers="))
    return set(named.removeprefix("--controllers=").split(","))


def granted(overlay: str) -> set[str]:
    """Return the controllers whose rights the overlay has."""
    found: set[str] = set()
    for resource in document(f"{overlay}/kustomization.yaml")["resources"]:
        if resource == "controllers":
            found.update(document("controllers/kustomization.yaml")["resources"])
        elif "controllers/" in resource:
            found.add(resource.rpartition("/")[2])
    return found


def container() -> dict[str, Any]:
    (found,) = document("workload/deployment.yaml")["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


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
    manifests = {file.resolve() for file in DEPLOY.rglob("*.yaml") if file.name != "kustomization.yaml"}
    assert manifests == {path for path in listed if path.is_file()}
    assert all(path.is_file() or (path / "kustomization.yaml").is_file() for path in listed)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_manifest_rights_match_the_running_controllers(overlay: str) -> None:
    rights = {"shadow" if "--shadow" in args(overlay) else each for each in controllers(overlay)}
    assert granted(overlay) == rights | {"serving"}
    assert controllers(overlay) <= settings.ALL


def test_standalone_hub_manifests_run_the_default_controllers() -> None:
    assert controllers(".") == settings.DEFAULT
    assert known() == settings.ALL | {"serving", "shadow"}


def test_manifests_beside_ocm_have_no_ocm_crds() -> None:
    definitions = {overlay: document(f"{overlay}/kustomization.yaml")["resources"] for overlay in OVERLAYS}
    assert "crds" in definitions["."]
    assert [each for each in definitions["ocm"] if "crds" in each] == ["../crds/fairway"]
    assert not [each for each in definitions["shadow"] if "crds" in each]


def test_shadow_manifests_grant_only_reads() -> None:
    role, _ = documents("controllers/shadow/rbac.yaml")
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} <= HARMLESS


def every_rule() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in [*DEPLOY.glob("controllers/*/rbac.yaml"), DEPLOY / "base/leases.yaml"]:
        for each in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            for rule in each.get("rules", ()):
                yield each["metadata"]["name"], rule


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
    assert [(each["name"], each["emptyDir"]["sizeLimit"]) for each in spec["volumes"]] == [("tmp", "16Mi")]


def test_deployment_has_two_replicas_and_a_disruption_budget() -> None:
    deployment, budget = document("workload/deployment.yaml"), document("base/disruption.yaml")
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"] == deployment["spec"]["selector"]


def test_manifest_ports_are_the_defaults_of_run() -> None:
    from fairway.cli.options import serving

    ports = {each["name"]: each["containerPort"] for each in container()["ports"]}
    assert {name: f":{port}" for name, port in ports.items()} == {
        "health": serving.HEALTH,
        "metrics": serving.METRICS,
        "debug": serving.DEBUG,
    }
    targets = [port for each in documents("base/services.yaml") for port in each["spec"]["ports"]]
    assert {each["name"]: each["port"] for each in targets} == {
        name: ports[name] for name in ("metrics", "debug")
    }
    assert {container()[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {
        "health"
    }
    (ingress,) = document("base/network.yaml")["spec"]["ingress"]
    assert {each["port"] for each in ingress["ports"]} == set(ports)


def test_service_monitor_selects_the_service() -> None:
    monitor = document("monitoring/servicemonitor.yaml")["spec"]
    (found,) = (
        each
        for each in documents("base/services.yaml")
        if monitor["selector"]["matchLabels"].items() <= each["metadata"]["labels"].items()
    )
    assert {each["port"] for each in monitor["endpoints"]} == {
        each["name"] for each in found["spec"]["ports"]
    }


def test_alerts_use_existing_metrics() -> None:
    (group,) = document("monitoring/alerts.yaml")["spec"]["groups"]
    by_name = {each.name: each for each in DEFINITIONS}
    labels = {"namespace", "pod", "le"}
    for rule in group["rules"]:
        names = {name.removesuffix("_bucket") for name in re.findall(r"fairway_\w+", rule["expr"])}
        assert names, rule["alert"]
        assert names <= by_name.keys(), rule["alert"]
        known_labels = labels.union(*(by_name[name].labels for name in names))
        for grouped in re.findall(r"(?:by|on) \(([^)]*)\)", rule["expr"]):
            assert set(grouped.split(", ")) <= known_labels, rule["alert"]
        text = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= known_labels, rule["alert"]


@pytest.mark.parametrize("controller", sorted(settings.ALL))
def test_queue_alert_uses_the_lease_of_the_controller(controller: str) -> None:
    """A process may lead with one lease and wait for the other; only the queue of the held lease counts."""
    (group,) = document("monitoring/alerts.yaml")["spec"]["groups"]
    (expression,) = (rule["expr"] for rule in group["rules"] if rule["alert"] == "FairwayQueueGrows")
    queue = re.compile(r'fairway_workqueue_depth\{controller(!?=)"(\w+)"\}')
    lease = re.compile(r'fairway_leader\{lease=(~?)"([^"]+)"\}')
    found = []
    for part in expression.split(" or "):
        ((sign, name),), ((pattern, leases),) = queue.findall(part), lease.findall(part)
        if (controller == name) == (sign == "="):
            found.append(leases if pattern else re.escape(leases))
    (held,) = found
    placing = {shard.lease for shard in (Shard(), Shard(index=1, count=3))}
    own, other = (
        (placing, {settings.LEASE}) if controller == settings.PLACEMENT else ({settings.LEASE}, placing)
    )
    assert all(re.fullmatch(held, each) for each in own)
    assert not any(re.fullmatch(held, each) for each in other)


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
    assert [(each["apiGroups"], each["resources"], sorted(each["verbs"])) for each in role["rules"]] == [
        (list(rule.groups), list(rule.resources), sorted(rule.verbs))
    ]


def test_hub_provider_manifest_has_valid_arguments() -> None:
    (container,) = document("providers/deployment.yaml")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"fairway:{fairway.__version__}"
    assert container["command"] == ["fairway", "provider", "run"]
    options = {name for each in provider_group.commands["run"].params for name in each.opts}
    assert {each.partition("=")[0] for each in container["args"] if each.startswith("--")} <= options
