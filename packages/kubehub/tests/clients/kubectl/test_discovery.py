"""What the hub is and what it serves."""

import asyncio
import json
import re
from pathlib import Path

from clients.kubectl.shell import Shell, page, served

SERVED = Path(__file__).parent / "manifests" / "served.txt"
"""What every hub has at least, as ``kubectl api-resources -o wide`` shows it."""


async def test_kubectl_shows_client_and_server_versions(harbour: Shell) -> None:
    assert (await harbour("version")).splitlines()[-1].startswith("Server Version: v1.36.3")
    server = json.loads(await harbour("version -o json"))["serverVersion"]
    assert (server["major"], server["minor"]) == ("1", "36")


async def test_kubectl_cluster_info_shows_the_address(harbour: Shell) -> None:
    shown = re.sub(r"\x1b\[[\d;]*m", "", await harbour("cluster-info"))
    assert shown == page("""
        Kubernetes control plane is running at https://<address>

        To further debug and diagnose cluster problems, use 'kubectl cluster-info dump'.
    """)


async def test_kubectl_api_resources_lists_names_and_verbs(harbour: Shell) -> None:
    served = SERVED.read_text(encoding="utf-8").splitlines()
    kinds, versions = await asyncio.gather(
        harbour("api-resources --no-headers -o wide"), harbour("api-versions")
    )
    shown = [line.split() for line in kinds.splitlines()]
    assert [line for line in served if line.split() not in shown] == []
    assert {word for line in served for word in line.split() if re.fullmatch(r"[a-z0-9.]+/v1", word)} <= set(
        versions.splitlines()
    )


async def test_kubectl_api_resources_selects_by_group_and_category(harbour: Shell) -> None:
    apps, own, names = await asyncio.gather(
        harbour("api-resources --api-group=apps"),
        harbour("api-resources --api-group=kubectl.suite.fairway.dev --no-headers -o wide"),
        harbour("api-resources --categories=vessels -o name"),
    )
    assert apps == page("""
        NAME                  SHORTNAMES   APIVERSION   NAMESPACED   KIND
        controllerrevisions                apps/v1      true         ControllerRevision
        daemonsets            ds           apps/v1      true         DaemonSet
        deployments           deploy       apps/v1      true         Deployment
        replicasets           rs           apps/v1      true         ReplicaSet
        statefulsets          sts          apps/v1      true         StatefulSet
    """)
    verbs = "delete,deletecollection,get,list,patch,create,update,watch"
    assert own.split() == ["ships", "sh", "kubectl.suite.fairway.dev/v1", "true", "Ship", verbs, "vessels"]
    assert names == "ships.kubectl.suite.fairway.dev\n"


async def test_kubectl_api_resources_selects_by_verb_and_scope(harbour: Shell) -> None:
    assert await harbour(
        "api-resources --api-group=authentication.k8s.io --verbs=create --namespaced=false -o name"
    ) == page("""
        selfsubjectreviews.authentication.k8s.io
        tokenreviews.authentication.k8s.io
    """)
    assert await harbour("api-resources --api-group=authentication.k8s.io --verbs=list -o name") == ""


async def test_kubectl_shows_conditions_of_a_crd(harbour: Shell) -> None:
    assert await harbour(
        "get crd ships.kubectl.suite.fairway.dev -o jsonpath="
        "'{range .status.conditions[*]}{.type}={.status} {.reason}: {.message};{end}{.status.storedVersions}'"
    ) == (
        "NamesAccepted=True NoConflicts: no conflicts found;"
        "Established=True InitialNamesAccepted: the initial names have been accepted;"
        '["v1"]'
    )
    shown = await harbour("get crd ships.kubectl.suite.fairway.dev")
    assert shown == page("""
        NAME                              CREATED AT
        ships.kubectl.suite.fairway.dev   <time>
    """)


async def test_deleted_crd_deletes_its_objects(shell: Shell) -> None:
    group = f"{shell.namespace}.fairway.dev"
    definition = f"""
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {{name: rafts.{group}}}
        spec:
          group: {group}
          scope: Cluster
          names: {{plural: rafts, kind: Raft}}
          versions:
            - name: v1
              served: true
              storage: true
              schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
    """
    raft = f"""
        apiVersion: {group}/v1
        kind: Raft
        metadata: {{name: {shell.namespace}}}
        logs: 5
    """
    await shell("create -f -", given=definition)
    await served(shell, "rafts")
    assert (
        await shell("create -f -", given=raft) == "raft.suite-of-tests.fairway.dev/suite-of-tests created\n"
    )
    assert await shell("get rafts") == page("""
        NAME             AGE
        suite-of-tests   0s
    """)
    assert await shell("delete -f -", given=definition) == (
        'customresourcedefinition.apiextensions.k8s.io "rafts.suite-of-tests.fairway.dev" deleted\n'
    )
    await shell("create -f -", given=definition)
    await served(shell, "rafts")
    shown = await shell.run("get rafts")
    assert (shown.status, shown.output, shown.errors) == (0, "", "No resources found\n")
    await shell("delete -f -", given=definition)
