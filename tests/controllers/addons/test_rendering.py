"""Templates and what becomes of them, without a hub."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.addon import ManagedClusterAddOn
from fairway.api.addon_config import (
    AddOnDeploymentConfigSpec,
    ContainerResourceRequirements,
    ContainerResources,
    CustomizedVariable,
    ImageMirror,
    NodePlacement,
    PodToleration,
    ProxyConfig,
)
from fairway.api.addon_template import (
    CUSTOM_SIGNER,
    KUBE_CLIENT,
    AddOnTemplate,
    AddOnTemplateSpec,
    CustomSignerRegistration,
    TemplateRegistration,
)
from fairway.api.work import ManifestWorkSpec, Workload
from fairway.controllers.addons.health import available
from fairway.controllers.addons.names import PRE_DELETE
from fairway.controllers.addons.pods import mirrored
from fairway.controllers.addons.rendering import NO_MANIFESTS, TOO_LARGE, Rendered, TemplateError, render
from fairway.controllers.addons.works import deployed
from kubewire.api.meta import ObjectMeta

HUB = TemplateRegistration(type=KUBE_CLIENT)
ADD_ON = ManagedClusterAddOn(metadata=ObjectMeta(name="a", namespace="c1"))
TEMPLATE = AddOnTemplate(metadata=ObjectMeta(name="t"))


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "agent", "image": "registry.example/fairway:1", **fields}


def deployment(*containers: dict[str, Any], kind: str = "Deployment", **pod: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "agent", "namespace": "home"},
        "spec": {"template": {"spec": {"containers": list(containers or (container(),)), **pod}}},
    }


def rendered(
    *manifests: dict[str, Any],
    registration: tuple[TemplateRegistration, ...] = (HUB,),
    config: AddOnDeploymentConfigSpec | None = None,
) -> Rendered:
    template = AddOnTemplate(
        metadata=ObjectMeta(name="t"),
        spec=AddOnTemplateSpec(
            addonName="a",
            agentSpec=ManifestWorkSpec(workload=Workload(manifests=manifests)),
            registration=registration,
        ),
    )
    return render(template, add_on="a", cluster="c1", namespace="home", config=config)


def pod_of(result: Rendered) -> dict[str, Any]:
    pod: dict[str, Any] = result.manifests[0]["spec"]["template"]["spec"]
    return pod


def variables(**values: str) -> AddOnDeploymentConfigSpec:
    made = tuple(CustomizedVariable(name=name, value=value) for name, value in values.items())
    return AddOnDeploymentConfigSpec(customizedVariables=made, agentInstallNamespace="")


def test_variables_are_replaced_in_every_string() -> None:
    command = [
        "--name={{CLUSTER_NAME}}",
        "{{HUB_KUBECONFIG}}",
        "{{LIMIT}}{{LIMIT}}",
        "in {{INSTALL_NAMESPACE}}",
        "{x}",
    ]
    result = rendered(
        deployment(container(args=command)), config=variables(LIMIT='7"', CLUSTER_NAME="somebody-else")
    )
    assert pod_of(result)["containers"][0]["args"] == [
        "--name=c1",
        "/managed/hub-kubeconfig/kubeconfig",
        '7"7"',
        "in home",
        "{x}",
    ]


def test_rendering_does_not_change_the_template() -> None:
    manifest = deployment(container(args=["{{CLUSTER_NAME}}"]))
    rendered(manifest)
    assert manifest == deployment(container(args=["{{CLUSTER_NAME}}"]))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{{LIMITS}}", "manifest Deployment home/agent, spec.template.spec.containers[0].args[0]: undefined "
         "variable {{LIMITS}}; defined are CLUSTER_NAME, HUB_KUBECONFIG, INSTALL_NAMESPACE, LIMIT"),
        ("{{ LIMIT }}", "{{ LIMIT }} cannot be a variable: write {{NAME}}"),
        ("{{}}", "{{}} cannot be a variable"),
        ("{{1ST}}", "{{1ST}} cannot be a variable"),
    ],
)  # fmt: skip
def test_undefined_variable_is_named(text: str, complaint: str) -> None:
    with pytest.raises(TemplateError) as caught:
        rendered(deployment(container(args=[text])), config=variables(LIMIT="1"))
    assert complaint in str(caught.value)


def test_template_without_registration_gets_no_kubeconfig() -> None:
    result = rendered(deployment(), registration=())
    assert "volumes" not in pod_of(result)
    assert [variable["name"] for variable in pod_of(result)["containers"][0]["env"]] == [
        "CLUSTER_NAME",
        "INSTALL_NAMESPACE",
    ]
    with pytest.raises(TemplateError, match="HUB_KUBECONFIG"):
        rendered(deployment(container(args=["{{HUB_KUBECONFIG}}"])), registration=())


@pytest.mark.parametrize(
    ("manifest", "missing"),
    [
        ({"kind": "ConfigMap", "metadata": {"name": "x"}}, "apiVersion"),
        ({"apiVersion": "v1", "metadata": {"name": "x"}}, "kind"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "metadata.name"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 7}}, "metadata.name"),
    ],
)
def test_manifest_that_is_not_an_object_is_refused(manifest: dict[str, Any], missing: str) -> None:
    with pytest.raises(TemplateError, match=f"{missing} is missing or not a string"):
        rendered(manifest)


def test_template_needs_manifests_without_duplicates() -> None:
    with pytest.raises(TemplateError, match=NO_MANIFESTS):
        rendered()
    with pytest.raises(TemplateError, match="Deployment home/agent is defined twice"):
        rendered(deployment(), deployment())


def test_every_container_gets_the_hub_kubeconfig() -> None:
    given = container(
        env=[{"name": "CLUSTER_NAME", "value": "wrong"}, {"name": "X", "value": "kept"}],
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    pod = pod_of(
        rendered(deployment(given, container(name="second"), volumes=[{"name": "data", "emptyDir": {}}]))
    )
    first, second = pod["containers"]
    assert first["env"] == [
        {"name": "X", "value": "kept"},
        {"name": "HUB_KUBECONFIG", "value": "/managed/hub-kubeconfig/kubeconfig"},
        {"name": "CLUSTER_NAME", "value": "c1"},
        {"name": "INSTALL_NAMESPACE", "value": "home"},
    ]
    mount = {"name": "hub-kubeconfig", "mountPath": "/managed/hub-kubeconfig"}
    assert first["volumeMounts"] == [{"name": "data", "mountPath": "/data"}, mount]
    assert second["volumeMounts"] == [mount]
    assert pod["volumes"] == [
        {"name": "data", "emptyDir": {}},
        {"name": "hub-kubeconfig", "secret": {"secretName": "a-hub-kubeconfig"}},
    ]


def test_certificate_of_a_custom_signer_is_mounted() -> None:
    signer = CustomSignerRegistration(signerName="example.com/signer")
    pod = pod_of(
        rendered(deployment(), registration=(TemplateRegistration(type=CUSTOM_SIGNER, customSigner=signer),))
    )
    assert pod["volumes"] == [
        {"name": "cert-example-com-signer", "secret": {"secretName": "a-example.com-signer-client-cert"}}
    ]
    assert pod["containers"][0]["volumeMounts"][0]["mountPath"] == "/managed/example.com-signer"


def test_objects_move_to_the_configured_namespace() -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s", "namespace": "home"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "home"}}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"},
        "subjects": [
            {"kind": "ServiceAccount", "name": "s", "namespace": "home"},
            {"kind": "Group", "name": "g"},
        ],
    }
    config = AddOnDeploymentConfigSpec(agentInstallNamespace="elsewhere")
    result = rendered(
        deployment(container(args=["{{INSTALL_NAMESPACE}}"])),
        account,
        namespace,
        role,
        binding,
        config=config,
    )
    assert result.moved_to == "elsewhere"
    made = {manifest["kind"]: manifest for manifest in result.manifests}
    assert made["Deployment"]["metadata"]["namespace"] == "elsewhere"
    assert made["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"] == ["elsewhere"]
    assert made["ServiceAccount"]["metadata"]["namespace"] == "elsewhere"
    assert made["Namespace"]["metadata"]["name"] == "elsewhere"
    assert "namespace" not in made["ClusterRole"]["metadata"]
    assert made["ClusterRoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "s", "namespace": "elsewhere"},
        {"kind": "Group", "name": "g"},
    ]


def test_tolerations_apply_without_a_node_selector() -> None:
    toleration = PodToleration(key="infra", operator="Exists", effect="NoSchedule")
    config = AddOnDeploymentConfigSpec(
        nodePlacement=NodePlacement(tolerations=(toleration,)), agentInstallNamespace=""
    )
    pod = pod_of(rendered(deployment(nodeSelector={"disk": "ssd"}), config=config))
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}]
    config = AddOnDeploymentConfigSpec(
        nodePlacement=NodePlacement(nodeSelector={"infra": ""}), agentInstallNamespace=""
    )
    assert pod_of(rendered(deployment(nodeSelector={"disk": "ssd"}), config=config))["nodeSelector"] == {
        "infra": ""
    }


def test_image_registries_are_replaced() -> None:
    mirrors = (
        ImageMirror(source="registry.example", mirror="mirror.example/all"),
        ImageMirror(source="registry.example/fairway", mirror="mirror.example/ours/fairway"),
    )
    config = AddOnDeploymentConfigSpec(registries=mirrors, agentInstallNamespace="")
    pod = pod_of(
        rendered(
            deployment(initContainers=[container(name="init", image="registry.example/x:2")]), config=config
        )
    )
    assert pod["containers"][0]["image"] == "mirror.example/ours/fairway:1"
    assert pod["initContainers"] == [{"name": "init", "image": "mirror.example/all/x:2"}]


@pytest.mark.parametrize(
    ("image", "source", "mirror", "result"),
    [
        ("registry.example/a/b:1", "", "mirror.example", "mirror.example/b:1"),
        ("registry.example/a/b:1", "registry.example/", "mirror.example/", "mirror.example/a/b:1"),
        ("registry.example2/a:1", "registry.example", "mirror.example", "registry.example2/a:1"),
        ("registry.example/a@sha256:0", "registry.example/a", "m/b", "m/b@sha256:0"),
    ],
)
def test_only_images_of_the_source_registry_are_replaced(
    image: str, source: str, mirror: str, result: str
) -> None:
    assert mirrored(image, (ImageMirror(source=source, mirror=mirror),)) == result


@pytest.mark.parametrize(
    ("ids", "memory"),
    [
        (["*:*:*"], "1Gi"),
        (["*:*:*", "deployments:agent:agent"], "2Gi"),
        (["deployments:agent:agent", "*:*:*"], "2Gi"),
        (["daemonsets:*:*"], None),
        (["deployments:agent:agen"], None),
        (["deployments:ag*:*"], "1Gi"),
    ],
)
def test_last_matching_resource_requirement_applies(ids: list[str], memory: str | None) -> None:
    wanted = tuple(
        ContainerResourceRequirements(
            containerID=container, resources=ContainerResources(limits={"memory": f"{number}Gi"})
        )
        for number, container in enumerate(ids, 1)
    )
    config = AddOnDeploymentConfigSpec(resourceRequirements=wanted, agentInstallNamespace="")
    got = pod_of(rendered(deployment(), config=config))["containers"][0].get("resources")
    assert got == (None if memory is None else {"limits": {"memory": memory}})


def test_proxy_settings_become_environment_variables() -> None:
    proxy = ProxyConfig(httpsProxy="http://proxy:3128", noProxy="10.0.0.0/8", caBundle=b"PEM")
    result = rendered(
        deployment(kind="DaemonSet"),
        config=AddOnDeploymentConfigSpec(proxyConfig=proxy, agentInstallNamespace=""),
    )
    given = {variable["name"]: variable["value"] for variable in pod_of(result)["containers"][0]["env"]}
    assert given["HTTPS_PROXY"] == given["https_proxy"] == "http://proxy:3128"
    assert given["NO_PROXY"] == given["no_proxy"] == "10.0.0.0/8"
    assert "HTTP_PROXY" not in given
    assert given["CA_BUNDLE_FILE_PATH"] == "/managed/proxy-ca/ca-bundle.crt"
    assert result.manifests[1] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a-proxy-ca", "namespace": "home"},
        "data": {"ca-bundle.crt": "PEM"},
    }
    assert {"name": "proxy-ca-bundle", "configMap": {"name": "a-proxy-ca"}} in pod_of(result)["volumes"]


def test_pre_delete_hooks_are_rendered_separately() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "bye", "namespace": "home", "annotations": {PRE_DELETE: ""}},
    }
    result = rendered(deployment(), job)
    assert [manifest["kind"] for manifest in result.manifests] == ["Deployment"]
    assert [hook["metadata"]["name"] for hook in result.hooks] == ["bye"]
    unmarked = {**job, "metadata": {"name": "bye", "namespace": "home"}}
    assert rendered(deployment(), unmarked).hooks == ()


def test_malformed_workload_is_passed_on_unchanged() -> None:
    strange = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x"},
        "spec": {"template": None},
    }
    assert rendered(strange).manifests == (strange,)


@pytest.mark.parametrize(
    "value",
    [
        '", "hostPID": true, "x": "',
        "a\n      hostNetwork: true",
        "{{CLUSTER_NAME}}",
        "{{SECOND}}",
        "../../etc",
        "$(HOME)",
        "\\1\\g<0>",
        "\x00\x1b",
    ],
)
def test_variable_value_is_inserted_as_text(value: str) -> None:
    manifest = deployment(container(args=["{{FIRST}}"], env=[{"name": "X", "value": "a{{FIRST}}b"}]))
    pod = pod_of(rendered(manifest, config=variables(FIRST=value, SECOND="two")))
    assert pod.keys() == {"containers", "volumes"}
    (made,) = pod["containers"]
    assert made.keys() == {"name", "image", "args", "env", "volumeMounts"}
    assert made["args"] == [value]
    assert made["env"][0] == {"name": "X", "value": f"a{value}b"}


def test_built_in_variables_cannot_be_overridden() -> None:
    config = variables(CLUSTER_NAME="c2", INSTALL_NAMESPACE="kube-system", HUB_KUBECONFIG="/elsewhere")
    pod = pod_of(
        rendered(deployment(container(args=["{{CLUSTER_NAME}} {{INSTALL_NAMESPACE}}"])), config=config)
    )
    assert pod["containers"][0]["args"] == ["c1 home"]
    assert {variable["name"]: variable["value"] for variable in pod["containers"][0]["env"]} == {
        "HUB_KUBECONFIG": "/elsewhere",
        "CLUSTER_NAME": "c1",
        "INSTALL_NAMESPACE": "home",
    }


def test_rendered_keys_must_stay_distinct() -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x"},
        "data": {"{{FIRST}}": "1", "same": "2"},
    }
    with pytest.raises(TemplateError, match="two keys become 'same'"):
        rendered(manifest, config=variables(FIRST="same"))


def test_oversized_rendering_is_refused_early() -> None:
    long = {"{{X}}" * 1000: "{{X}}" * 100}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": long}
    with pytest.raises(TemplateError) as caught:
        rendered(manifest, config=variables(X="v" * 1024))
    assert str(caught.value) == TOO_LARGE


BINDING: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "b"},
}


@pytest.mark.parametrize(
    "manifest",
    [
        {**deployment(), "spec": "text"},
        {**deployment(), "spec": []},
        {**deployment(), "metadata": "text"},
        {**deployment(), "metadata": {"name": "x", "labels": 7}},
        {**deployment(), "metadata": {"name": "x", "annotations": ["a"]}},
        {**deployment(), "metadata": {"name": "x", "namespace": {}}},
        {**BINDING, "subjects": 7},
        {**BINDING, "subjects": ["text"]},
        {**BINDING, "subjects": {"kind": "ServiceAccount"}},
    ],
)
def test_malformed_manifest_is_refused(manifest: dict[str, Any]) -> None:
    with pytest.raises(TemplateError):
        rendered(manifest, config=AddOnDeploymentConfigSpec(agentInstallNamespace="elsewhere"))


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("{{CLUSTER_NAME}}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(_json, _json, _json, st.sampled_from(["Deployment", "DaemonSet", "RoleBinding", "Job", "Namespace"]))
def test_any_manifest_is_rendered_or_refused(spec: Any, part: Any, metadata: Any, kind: str) -> None:
    pod = {"containers": [part], "initContainers": part, "volumes": part}
    shapes = (
        spec,
        {"template": {"spec": pod}},
        {"template": {"spec": {"containers": [{"env": [{"name": part}]}]}}},
    )
    for shape in shapes:
        for meta in (metadata, {"name": "x", "namespace": "n", "labels": metadata}):
            manifest = {
                "apiVersion": "apps/v1",
                "kind": kind,
                "metadata": meta,
                "spec": shape,
                "subjects": part,
            }
            try:
                result = rendered(manifest, config=AddOnDeploymentConfigSpec(agentInstallNamespace="moved"))
            except TemplateError:
                continue
            # Later steps can read the result.
            work = deployed(ADD_ON, TEMPLATE, result, hashes={})
            available("a", work)
