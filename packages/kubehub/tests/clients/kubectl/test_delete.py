"""Deleting and waiting: with finalizers, with owners, with a whole namespace."""

import asyncio

from clients.kubectl.shell import Shell, page

FINALIZER = "kubectl.suite.fairway.dev/unload"
SHIP = """
    apiVersion: kubectl.suite.fairway.dev/v1
    kind: Ship
    metadata:
      name: anna
    spec:
      port: kiel
"""


async def launch(shell: Shell, name: str, *, finalizer: str = "") -> None:
    document = SHIP.replace("name: anna", f"name: {name}")
    if finalizer:
        document = document.replace("spec:", f"  finalizers: [{finalizer}]\n    spec:")
    await shell("create -f -", given=document)


async def test_kubectl_delete_waits_for_the_deletion(shell: Shell) -> None:
    await launch(shell, "anna")
    assert await shell("delete ship anna") == (
        'ship.kubectl.suite.fairway.dev "anna" deleted from suite-of-tests namespace\n'
    )
    assert await shell.refused("delete ship anna") == (
        'Error from server (NotFound): ships.kubectl.suite.fairway.dev "anna" not found\n'
    )
    assert await shell("delete ship anna --ignore-not-found") == ""


async def test_finalizer_blocks_deletion_until_it_is_removed(shell: Shell) -> None:
    await launch(shell, "anna", finalizer=FINALIZER)
    assert await shell("delete ship anna --wait=false") == (
        'ship.kubectl.suite.fairway.dev "anna" deleted from suite-of-tests namespace\n'
    )
    assert await shell("get ship anna -o yaml") == page("""
        apiVersion: kubectl.suite.fairway.dev/v1
        kind: Ship
        metadata:
          creationTimestamp: "<time>"
          deletionGracePeriodSeconds: 0
          deletionTimestamp: "<time>"
          finalizers:
          - kubectl.suite.fairway.dev/unload
          generation: 2
          name: anna
          namespace: suite-of-tests
          resourceVersion: <version>
          uid: <uid>
        spec:
          boats: 1
          port: kiel
    """)
    assert await shell.refused("wait --for=delete ship/anna --timeout=0") == (
        "error: condition not met for ships/anna\n"
    )
    waiting = asyncio.create_task(shell("wait --for=delete ship/anna --timeout=100s"))
    assert await shell("""patch ship anna --type=merge -p '{"metadata": {"finalizers": null}}'""") == (
        "ship.kubectl.suite.fairway.dev/anna patched\n"
    )
    await waiting
    assert await shell.refused("get ship anna") == (
        'Error from server (NotFound): ships.kubectl.suite.fairway.dev "anna" not found\n'
    )


async def test_kubectl_deletes_by_selector_and_all(shell: Shell) -> None:
    await asyncio.gather(*(launch(shell, name) for name in ["anna", "berta", "cora"]))
    await shell("label ship anna berta home=kiel")
    assert await shell("delete ships -l home=kiel") == page("""
        ship.kubectl.suite.fairway.dev "anna" deleted from suite-of-tests namespace
        ship.kubectl.suite.fairway.dev "berta" deleted from suite-of-tests namespace
    """)
    assert await shell("delete ships --field-selector=spec.port!=kiel") == "No resources found\n"
    assert await shell("delete ships --all --dry-run=server") == (
        'ship.kubectl.suite.fairway.dev "cora" deleted from suite-of-tests namespace (server dry run)\n'
    )
    assert await shell("delete ships --all -o name") == "ship.kubectl.suite.fairway.dev/cora\n"
    assert await shell("get ships -o name") == ""


async def test_kubectl_deletes_objects_of_a_file(shell: Shell) -> None:
    await launch(shell, "anna")
    documents = SHIP + "\n---\n" + SHIP.replace("anna", "nemo")
    shown = await shell.run("delete -f -", given=documents)
    assert shown.status == 1
    assert shown.output == 'ship.kubectl.suite.fairway.dev "anna" deleted from suite-of-tests namespace\n'
    assert shown.errors == (
        'Error from server (NotFound): error when deleting "STDIN": ships.kubectl.suite.fairway.dev "nemo" not found\n'
    )


async def test_unbound_pod_is_deleted_at_once_and_a_bound_one_by_force(shell: Shell) -> None:
    pod = """
        apiVersion: v1
        kind: Pod
        metadata: {name: %s}
        spec:
          nodeName: %s
          containers: [{name: main, image: registry.example/bridge:1}]
    """
    await shell("run loose --image=registry.example/bridge:1")
    await shell("create -f -", given=pod % ("bound", "nowhere"))
    assert await shell("delete pod loose") == 'pod "loose" deleted from suite-of-tests namespace\n'
    assert (
        await shell("delete pod bound --wait=false") == 'pod "bound" deleted from suite-of-tests namespace\n'
    )
    assert await shell("get pods") == page("""
        NAME    READY   STATUS        RESTARTS   AGE
        bound   0/1     Terminating   0          0s
    """)
    shown = await shell.run("delete pod bound --grace-period=0 --force")
    assert (shown.status, shown.output) == (0, 'pod "bound" force deleted from suite-of-tests namespace\n')
    assert shown.errors == (
        "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. The"
        " resource may continue to run on the cluster indefinitely.\n"
    )
    assert await shell("get pods -o name") == ""


async def test_deleted_namespace_deletes_its_objects(shell: Shell) -> None:
    await launch(shell, "anna", finalizer=FINALIZER)
    await shell("create configmap chart")
    await shell("create deployment fleet --image=registry.example/fleet:1")
    assert await shell(f"delete namespace {shell.namespace} --wait=false") == (
        'namespace "suite-of-tests" deleted\n'
    )
    assert (
        await shell(
            f"wait namespace/{shell.namespace} --for=condition=NamespaceFinalizersRemaining --timeout=100s"
        )
        == "namespace/suite-of-tests condition met\n"
    )
    assert await shell(f"get namespace {shell.namespace}") == page("""
        NAME             STATUS        AGE
        suite-of-tests   Terminating   0s
    """)
    assert await shell.refused("create configmap late") == (
        'error: failed to create configmap: configmaps "late" is forbidden: unable to create new content in namespace'
        " suite-of-tests because it is being terminated\n"
    )
    messages = "{range .status.conditions[*]}{.type}={.status} {.reason}: {.message};{end}"
    told = await shell(f"get namespace {shell.namespace} -o jsonpath='{messages}'")
    assert sorted(filter(None, told.split(";"))) == [
        "NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining:"
        " ships.kubectl.suite.fairway.dev has 1 resource instances",
        "NamespaceDeletionContentFailure=False ContentDeleted: All content successfully deleted, may be waiting on"
        " finalization",
        "NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources successfully discovered",
        "NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully"
        " parsed",
        "NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers"
        " remaining: kubectl.suite.fairway.dev/unload in 1 resource instances",
    ]
    assert await shell("get configmaps,deployments -o name") == ""

    await shell("""patch ship anna --type=merge -p '{"metadata": {"finalizers": null}}'""")
    await shell(f"wait --for=delete namespace/{shell.namespace} --timeout=100s")
    assert await shell.refused(f"get namespace {shell.namespace}") == (
        'Error from server (NotFound): namespaces "suite-of-tests" not found\n'
    )


async def test_system_namespaces_cannot_be_deleted(shell: Shell) -> None:
    for name in ("default", "kube-system", "kube-public"):
        assert await shell.refused(f"delete namespace {name}") == (
            f'Error from server (Forbidden): namespaces "{name}" is forbidden: this namespace may not be deleted\n'
        )


async def test_kubectl_waits_for_a_condition(shell: Shell) -> None:
    await launch(shell, "anna")
    status = '{"status": {"conditions": [{"type": "Afloat", "status": "%s"}]}}'
    assert await shell.refused("wait ship/anna --for=condition=Afloat --timeout=0") == (
        "error: condition not met for ships/anna\n"
    )
    async with shell.running("wait ship/anna --for=condition=Afloat --timeout=100s") as screen:
        for value in ("False", "True"):
            await shell(f"patch ship anna --subresource=status --type=merge -p '{status % value}'")
        assert await screen.lines(1) == "ship.kubectl.suite.fairway.dev/anna condition met\n"
    assert await shell("wait ship/anna --for=condition=Afloat=true --timeout=0") == (
        "ship.kubectl.suite.fairway.dev/anna condition met\n"
    )
    assert await shell.in_vain("wait ship/anna --for=condition=Afloat=false") == (
        "error: timed out waiting for the condition on ships/anna\n"
    )


async def test_kubectl_waits_for_a_jsonpath_value(shell: Shell) -> None:
    await asyncio.gather(launch(shell, "anna"), launch(shell, "berta"))
    async with shell.running(
        "wait ship anna berta --for=jsonpath='{.spec.boats}'=4 --timeout=100s"
    ) as screen:
        await shell("scale ship anna --replicas=4")
        assert await screen.lines(1) == "ship.kubectl.suite.fairway.dev/anna condition met\n"
        await shell("scale ship berta --replicas=4")
        assert await screen.lines(1) == "ship.kubectl.suite.fairway.dev/berta condition met\n"


async def test_kubectl_wait_for_a_missing_object_fails(shell: Shell) -> None:
    assert await shell.refused("wait ship/nemo --for=condition=Afloat") == (
        'Error from server (NotFound): ships.kubectl.suite.fairway.dev "nemo" not found\n'
    )
    assert await shell.refused("wait ships -l home=none --for=condition=Afloat") == (
        "error: no matching resources found\n"
    )
    async with shell.running("wait ship/anna --for=create --timeout=100s") as screen:
        await launch(shell, "anna")
        assert await screen.lines(1) == "ship.kubectl.suite.fairway.dev/anna condition met\n"
