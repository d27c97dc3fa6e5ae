"""Nodes as an administrator handles them: tainted, cordoned, drained."""

import json
from collections.abc import AsyncIterator

import pytest
from clients.kubectl.shell import Shell, Shown, page

READY = """{"status": {
    "conditions": [{"type": "Ready", "status": "True"}],
    "nodeInfo": {"kubeletVersion": "v1"},
    "allocatable": {"cpu": "4", "memory": "8Gi"}
}}"""
TAINTS = "get node {node} -o jsonpath='{{.spec.taints}}'"


@pytest.fixture
async def node(shell: Shell) -> AsyncIterator[str]:
    """A node of the namespace's name, for as long as the test."""
    await shell(
        "create -f -",
        given=f"""
            apiVersion: v1
            kind: Node
            metadata: {{name: {shell.namespace}}}
        """,
    )
    await shell(f"""patch node {shell.namespace} --type=merge -p '{{"spec": {{"taints": null}}}}'""")
    await shell(f"patch node {shell.namespace} --subresource=status -p '{READY}'")
    yield shell.namespace
    await shell(f"delete node {shell.namespace}")


def pod(name: str, *, node: str, labels: str = "{}") -> str:
    return f"""
        apiVersion: v1
        kind: Pod
        metadata: {{name: {name}, labels: {labels}}}
        spec:
          nodeName: {node}
          terminationGracePeriodSeconds: 0
          containers:
            - name: main
              image: registry.example/bridge:1
              resources: {{requests: {{cpu: 500m, memory: 2Gi}}, limits: {{memory: 4Gi}}}}
    """


async def test_kubectl_taint_sets_overwrites_and_removes_taints(shell: Shell, node: str) -> None:
    assert (
        await shell(f"taint node {node} storm=near:NoSchedule ice:NoExecute")
        == "node/suite-of-tests tainted\n"
    )
    assert await shell.refused(f"taint node {node} storm=far:NoSchedule") == (
        "error: node suite-of-tests already has storm taint(s) with same effect(s) and --overwrite is false\n"
    )
    assert (
        await shell(f"taint node {node} storm=far:NoSchedule --overwrite") == "node/suite-of-tests modified\n"
    )
    assert await shell(f"taint node {node} ice-") == "node/suite-of-tests untainted\n"
    assert await shell(TAINTS.format(node=node)) == ('[{"effect":"NoSchedule","key":"storm","value":"far"}]')


async def test_cordoned_node_is_marked_in_the_table(shell: Shell, node: str) -> None:
    assert (
        await shell(f"label node {node} node-role.kubernetes.io/worker=") == "node/suite-of-tests labeled\n"
    )
    assert await shell(f"cordon {node}") == "node/suite-of-tests cordoned\n"
    assert await shell(f"cordon {node}") == "node/suite-of-tests already cordoned\n"
    assert await shell(f"get node {node}") == page("""
        NAME             STATUS                     ROLES    AGE   VERSION
        suite-of-tests   Ready,SchedulingDisabled   worker   0s    v1
    """)
    assert await shell(f"uncordon {node}") == "node/suite-of-tests uncordoned\n"
    assert await shell(f"get node {node} --no-headers -o wide") == (
        "suite-of-tests   Ready   worker   0s    v1    <none>   <none>   <unknown>   <unknown>   <unknown>\n"
    )


async def test_kubectl_describes_a_node_with_its_pods(shell: Shell, node: str) -> None:
    await shell("create -f -", given=pod("bridge", node=node))
    shown = await shell(f"describe node {node}")
    assert shown.partition("Non-terminated Pods:")[2] == page("""
                  (1 in total)
          Namespace                   Name      CPU Requests  CPU Limits  Memory Requests  Memory Limits  Age
          ---------                   ----      ------------  ----------  ---------------  -------------  ---
          suite-of-tests              bridge    500m (12%)    0 (0%)      2Gi (25%)        4Gi (50%)      0s
        Allocated resources:
          (Total limits may be over 100 percent, i.e., overcommitted.)
          Resource           Requests    Limits
          --------           --------    ------
          cpu                500m (12%)  0 (0%)
          memory             2Gi (25%)   4Gi (50%)
          ephemeral-storage  0 (0%)      0 (0%)
        Events:              <none>
    """)


async def test_kubectl_drain_evicts_ownerless_pods_only_by_force(shell: Shell, node: str) -> None:
    await shell("create -f -", given=pod("bridge", node=node))
    shown = await shell.run(f"drain {node}")
    assert (shown.status, shown.output) == (1, "node/suite-of-tests cordoned\n")
    why = "cannot delete Pods that declare no controller (use --force to override): suite-of-tests/bridge"
    assert shown.errors == (
        f'error: unable to drain node "suite-of-tests" due to error: {why}, continuing command...\n'
        f"There are pending nodes to be drained:\n suite-of-tests\n{why}\n"
    )
    shown = await shell.run(f"drain {node} --force")
    assert (shown.status, shown.errors) == (
        0,
        "Warning: deleting Pods that declare no controller: suite-of-tests/bridge\n",
    )
    assert shown.output == page("""
        node/suite-of-tests already cordoned
        evicting pod suite-of-tests/bridge
        pod/bridge evicted
        node/suite-of-tests drained
    """)
    assert await shell("get pods -o name") == ""


async def test_disruption_budget_limits_evictions(shell: Shell, node: str) -> None:
    await shell("create poddisruptionbudget deck --selector=deck=top --min-available=1")
    running = '{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}'
    for name in ("bridge", "wheel"):
        await shell("create -f -", given=pod(name, node=node, labels="{deck: top}"))
        await shell(f"patch pod {name} --subresource=status -p '{running}'")
    budget = (
        '{"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1,'
        ' "expectedPods": 2}}'
    )
    await shell(f"patch poddisruptionbudget deck --subresource=status --type=merge -p '{budget}'")

    async def evict(name: str) -> Shown:
        path = f"/api/v1/namespaces/{shell.namespace}/pods/{name}/eviction"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        return await shell.run(f"create --raw {path} -f -", given=json.dumps(eviction))

    assert (await evict("bridge")).status == 0
    refused = await evict("wheel")
    assert (refused.status, refused.output) == (1, "")
    assert refused.errors == (
        "Error from server (TooManyRequests): Cannot evict pod as it would violate the pod's disruption budget.\n"
    )
    assert await shell("get pods -o name") == "pod/wheel\n"
    assert await shell("get poddisruptionbudget deck") == page("""
        NAME   MIN AVAILABLE   MAX UNAVAILABLE   ALLOWED DISRUPTIONS   AGE
        deck   1               N/A               0                     0s
    """)
    assert await shell("get poddisruptionbudget deck -o jsonpath='{.status.disruptedPods}'") == (
        '{"bridge":"<time>"}'
    )
    await shell("delete pod wheel")
