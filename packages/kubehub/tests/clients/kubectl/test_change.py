"""Changing single fields and whole objects with kubectl."""

import pytest
from clients.kubectl.shell import Shell, page

SHIP = """
    apiVersion: kubectl.suite.fairway.dev/v1
    kind: Ship
    metadata:
      name: anna
      labels: {size: small}
    spec:
      port: kiel
      stops: [wismar]
"""
ANNA = "ship.kubectl.suite.fairway.dev/anna"


@pytest.fixture
async def anna(shell: Shell) -> Shell:
    await shell("create -f -", given=SHIP)
    return shell


async def test_kubectl_label_sets_overwrites_and_removes_labels(anna: Shell) -> None:
    labels = "get ship anna -o jsonpath='{.metadata.labels}'"
    assert await anna("label ship anna sea=north home=kiel") == f"{ANNA} labeled\n"
    assert await anna("label ship anna sea=north") == f"{ANNA} not labeled\n"
    assert await anna.refused("label ship anna sea=baltic") == (
        "error: 'sea' already has a value (north), and --overwrite is false\n"
    )
    assert await anna("label ship anna sea=baltic --overwrite") == f"{ANNA} labeled\n"
    assert await anna("label ship anna home- size-") == f"{ANNA} unlabeled\n"
    assert await anna(labels) == '{"sea":"baltic"}'
    assert await anna("label ship anna --list") == "sea=baltic\n"
    assert await anna("label ships --all crew=full") == f"{ANNA} labeled\n"
    assert await anna("label ships -l sea=baltic crew-") == f"{ANNA} unlabeled\n"
    assert await anna(labels) == '{"sea":"baltic"}'


async def test_kubectl_label_with_a_stale_resource_version_conflicts(anna: Shell) -> None:
    seen = await anna("get ship anna -o jsonpath='{.metadata.resourceVersion}'")
    assert await anna(f"label ship anna a=b --resource-version={seen}") == f"{ANNA} labeled\n"
    assert await anna.refused(f"label ship anna a- --resource-version={seen}") == (
        'Error from server (Conflict): Operation cannot be fulfilled on ships.kubectl.suite.fairway.dev "anna":'
        " the object has been modified; please apply your changes to the latest version and try again\n"
    )


async def test_kubectl_scale_uses_the_scale_subresource(anna: Shell) -> None:
    await anna("create deployment fleet --image=registry.example/fleet:1")
    assert await anna("scale ship anna --replicas=4") == f"{ANNA} scaled\n"
    assert await anna("scale deployment/fleet --replicas=3 --current-replicas=1") == (
        "deployment.apps/fleet scaled\n"
    )
    assert await anna("get ship anna -o jsonpath='{.spec.boats}'") == "4"
    assert await anna("get deployment fleet") == page("""
        NAME    READY   UP-TO-DATE   AVAILABLE   AGE
        fleet   0/3     0            0           0s
    """)
    assert await anna.refused("scale ship anna --replicas=5 --current-replicas=1") == (
        "error: Expected replicas to be 1, was 4\n"
    )
    assert await anna("get ship anna --subresource=scale -o yaml") == page("""
        apiVersion: autoscaling/v1
        kind: Scale
        metadata:
          creationTimestamp: "<time>"
          name: anna
          namespace: suite-of-tests
          resourceVersion: <version>
          uid: <uid>
        spec:
          replicas: 4
        status:
          replicas: 0
    """)
    await anna("create configmap chart")
    assert await anna.refused("scale configmap chart --replicas=1") == (
        "Error from server (NotFound): the server could not find the requested resource\n"
    )


async def test_kubectl_replace_replaces_the_whole_object(anna: Shell) -> None:
    other = SHIP.replace("labels: {size: small}", "annotations: {by: jo}").replace(
        "stops: [wismar]", "boats: 7"
    )
    assert await anna("replace -f -", given=other) == f"{ANNA} replaced\n"
    assert await anna("get ship anna -o jsonpath='{.metadata.labels}{.spec}'") == '{"boats":7,"port":"kiel"}'
    assert await anna.refused("replace -f -", given=SHIP.replace("anna", "nemo")) == (
        'Error from server (NotFound): error when replacing "STDIN": ships.kubectl.suite.fairway.dev "nemo" not found\n'
    )


async def test_kubectl_set_changes_containers(shell: Shell) -> None:
    await shell("create deployment fleet --image=registry.example/fleet:1")
    assert await shell("set image deployment/fleet fleet=registry.example/fleet:2") == (
        "deployment.apps/fleet image updated\n"
    )
    assert await shell("set env deployment/fleet COURSE=north") == "deployment.apps/fleet env updated\n"
    assert await shell("set resources deployment/fleet --requests=cpu=100m --limits=memory=1Gi") == (
        "deployment.apps/fleet resource requirements updated\n"
    )
    assert await shell("set serviceaccount deployment/fleet pilot") == (
        "deployment.apps/fleet serviceaccount updated\n"
    )
    assert await shell(
        "get deployment fleet -o jsonpath='{.spec.template.spec.containers[0].image}"
        " {.spec.template.spec.containers[0].env} {.spec.template.spec.containers[0].resources}"
        " {.spec.template.spec.serviceAccountName} {.metadata.generation}'"
    ) == (
        'registry.example/fleet:2 [{"name":"COURSE","value":"north"}]'
        ' {"limits":{"memory":"1Gi"},"requests":{"cpu":"100m"}} pilot 5'
    )
