"""kubectl describe, events and explain."""

import asyncio
from datetime import UTC, datetime, timedelta
from textwrap import dedent

from clients.kubectl.shell import Shell, page

SHIP = """
    apiVersion: kubectl.suite.fairway.dev/v1
    kind: Ship
    metadata:
      name: anna
      labels: {home: kiel}
      annotations: {note: sails at dawn}
    spec:
      port: kiel
      crew:
        - name: jo
          rank: captain
"""

AGO = timedelta(days=3, hours=12, minutes=30)
"""An age in hours, so that its width does not depend on the speed of the machine."""


async def create_event(
    shell: Shell, name: str, *, kind: str, api_version: str, of: str, reason: str, category: str = "Normal"
) -> None:
    """An event such as a controller would write."""
    uid = await shell.exactly(f"get {kind} {of} -o jsonpath='{{.metadata.uid}}'")
    then = (datetime.now(UTC) - AGO).strftime("%Y-%m-%dT%H:%M:%SZ")
    await shell(
        "create -f -",
        given=f"""
            apiVersion: v1
            kind: Event
            metadata: {{name: {name}}}
            involvedObject:
              apiVersion: {api_version}
              kind: {kind}
              name: {of}
              namespace: {shell.namespace}
              uid: {uid}
            reason: {reason}
            message: it did so
            type: {category}
            count: 3
            firstTimestamp: {then}
            lastTimestamp: {then}
            source: {{component: harbour}}
        """,
    )


async def test_kubectl_describes_a_custom_object_with_events(shell: Shell) -> None:
    await shell("create -f -", given=SHIP)
    condition = '{"status": {"phase": "sailing", "conditions": [{"type": "Afloat", "status": "True"}]}}'
    await shell(f"patch ship anna --subresource=status --type=merge -p '{condition}'")
    await create_event(
        shell, "one", kind="Ship", api_version="kubectl.suite.fairway.dev/v1", of="anna", reason="Sailed"
    )
    assert await shell("describe ship anna") == page("""
        Name:         anna
        Namespace:    suite-of-tests
        Labels:       home=kiel
        Annotations:  note: sails at dawn
        API Version:  kubectl.suite.fairway.dev/v1
        Kind:         Ship
        Metadata:
          Creation Timestamp:  <time>
          Generation:          1
          Resource Version:    <version>
          UID:                 <uid>
        Spec:
          Boats:  1
          Crew:
            Name:  jo
            Rank:  captain
          Port:    kiel
        Status:
          Conditions:
            Status:  True
            Type:    Afloat
          Phase:     sailing
        Events:
          Type    Reason  Age                    From     Message
          ----    ------  ----                   ----     -------
          Normal  Sailed  3d12h (x3 over 3d12h)  harbour  it did so
    """)


async def test_kubectl_describes_a_pod(shell: Shell) -> None:
    pilot = '{"spec": {"serviceAccountName": "pilot"}}'
    await shell(
        f"run bridge --image=registry.example/bridge:1 --env=COURSE=north --port=80 --overrides='{pilot}'"
    )
    assert await shell("describe pod bridge") == page("""
        Name:             bridge
        Namespace:        suite-of-tests
        Priority:         0
        Service Account:  pilot
        Node:             <none>
        Labels:           run=bridge
        Annotations:      <none>
        Status:           Pending
        IP:
        IPs:              <none>
        Containers:
          bridge:
            Image:      registry.example/bridge:1
            Port:       80/TCP
            Host Port:  0/TCP
            Environment:
              COURSE:    north
            Mounts:      <none>
        Volumes:         <none>
        QoS Class:       BestEffort
        Node-Selectors:  <none>
        Tolerations:     node.kubernetes.io/not-ready:NoExecute op=Exists for 300s
                         node.kubernetes.io/unreachable:NoExecute op=Exists for 300s
        Events:          <none>
    """)


async def test_kubectl_describes_a_namespace_with_limits(shell: Shell) -> None:
    assert await shell(f"describe namespace {shell.namespace}") == page("""
        Name:         suite-of-tests
        Labels:       kubernetes.io/metadata.name=suite-of-tests
        Annotations:  <none>
        Status:       Active

        No resource quota.

        No LimitRange resource.
    """)
    await shell(
        "create -f -",
        given="""
            apiVersion: v1
            kind: LimitRange
            metadata: {name: hold}
            spec:
              limits:
                - type: Container
                  default: {memory: 500Mi}
                  max: {memory: 1Gi}
        """,
    )
    assert (await shell(f"describe namespace {shell.namespace}")).partition("No resource quota.\n")[
        2
    ] == page("""

        Resource Limits
         Type       Resource  Min  Max  Default Request  Default Limit  Max Limit/Request Ratio
         ----       --------  ---  ---  ---------------  -------------  -----------------------
         Container  memory    -    1Gi  500Mi            500Mi          -
    """)


async def test_kubectl_lists_events_of_all_or_one_object(shell: Shell) -> None:
    await shell("create -f -", given=SHIP)
    await shell("create configmap chart")
    await create_event(
        shell, "one", kind="Ship", api_version="kubectl.suite.fairway.dev/v1", of="anna", reason="Sailed"
    )
    await create_event(
        shell, "two", kind="ConfigMap", api_version="v1", of="chart", reason="Torn", category="Warning"
    )
    listed, told, one, warnings, selected = await asyncio.gather(
        shell("get events --sort-by=.metadata.name"),
        shell("events"),
        shell("events --for ship/anna"),
        shell("events --types=Warning --no-headers"),
        shell("get events --field-selector involvedObject.kind=ConfigMap,reason=Torn,type=Warning -o name"),
    )
    assert listed == page("""
        LAST SEEN   TYPE      REASON   OBJECT            MESSAGE
        3d12h       Normal    Sailed   ship/anna         it did so
        3d12h       Warning   Torn     configmap/chart   it did so
    """)
    assert sorted(told.splitlines()) == [
        "3d12h (x3 over 3d12h)   Normal    Sailed   Ship/anna         it did so",
        "3d12h (x3 over 3d12h)   Warning   Torn     ConfigMap/chart   it did so",
        "LAST SEEN               TYPE      REASON   OBJECT            MESSAGE",
    ]
    assert one == page("""
        LAST SEEN               TYPE     REASON   OBJECT      MESSAGE
        3d12h (x3 over 3d12h)   Normal   Sailed   Ship/anna   it did so
    """)
    assert warnings == "3d12h (x3 over 3d12h)   Warning   Torn   ConfigMap/chart   it did so\n"
    assert selected == "event/two\n"


async def test_kubectl_watches_events(shell: Shell) -> None:
    await shell("create configmap chart")
    async with shell.running("events --watch --for configmap/chart") as screen:
        seen = asyncio.create_task(screen.lines(2))
        await create_event(shell, "one", kind="ConfigMap", api_version="v1", of="chart", reason="Drawn")
        assert await seen == page("""
            LAST SEEN               TYPE     REASON   OBJECT            MESSAGE
            3d12h (x3 over 3d12h)   Normal   Drawn    ConfigMap/chart   it did so
        """)


def fields(shown: str) -> str:
    """Return names and types, without descriptions and allowed values."""
    return dedent("".join(line + "\n" for line in shown.splitlines() if "\t<" in line)).replace("\t", " ")


async def test_kubectl_explains_a_custom_kind(shell: Shell) -> None:
    kind, spec, rank = await asyncio.gather(
        shell("explain ships"), shell("explain ship.spec --recursive"), shell("explain sh.spec.crew.rank")
    )
    assert kind.startswith(
        page("""
            GROUP:      kubectl.suite.fairway.dev
            KIND:       Ship
            VERSION:    v1

            DESCRIPTION:
                Ship carries cargo from port to port.

            FIELDS:
        """)
    )
    assert fields(kind) == page("""
      apiVersion <string>
      kind <string>
      metadata <ObjectMeta>
      spec <Object> -required-
      status <Object>
    """)
    assert spec.replace("\t", " ") == page("""
        GROUP:      kubectl.suite.fairway.dev
        KIND:       Ship
        VERSION:    v1

        FIELD: spec <Object>


        DESCRIPTION:
            What is wanted of the ship.

        FIELDS:
          boats <integer>
          cargo <Object>
            goods <string>
            tonnes <number>
          crew <[]Object>
            name <string> -required-
            rank <string>
          flag <string>
          enum: red, green
          papers <map[string]string>
          port <string> -required-
          stops <[]string>

    """)
    assert rank == page("""
        GROUP:      kubectl.suite.fairway.dev
        KIND:       Ship
        VERSION:    v1

        FIELD: rank <string>


        DESCRIPTION:
            What they do aboard.


    """)


async def test_kubectl_explains_built_in_kinds(shell: Shell) -> None:
    chart, strategy = await asyncio.gather(
        shell("explain configmap"), shell("explain deployment.spec.strategy --recursive")
    )
    assert chart.startswith("KIND:       ConfigMap\nVERSION:    v1\n\nDESCRIPTION:\n")
    assert strategy.startswith(
        "GROUP:      apps\nKIND:       Deployment\nVERSION:    v1\n\nFIELD: strategy <DeploymentStrategy>\n"
    )
    assert fields(chart) == page("""
        apiVersion <string>
        binaryData <map[string]string>
        data <map[string]string>
        immutable <boolean>
        kind <string>
        metadata <ObjectMeta>
    """)
    assert fields(strategy) == page("""
        rollingUpdate <RollingUpdateDeployment>
          maxSurge <IntOrString>
          maxUnavailable <IntOrString>
        type <string>
    """)
