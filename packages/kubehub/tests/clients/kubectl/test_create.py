"""What kubectl makes by itself, from a line."""

import asyncio
import base64
import json

from clients.kubectl.shell import DEADLINE, Shell, page


async def every(shell: Shell, expected: dict[str, str]) -> None:
    """All lines at once: none depends on another."""
    shown = await asyncio.gather(*(shell(line) for line in expected))
    assert dict(zip(expected, shown, strict=True)) == expected


async def test_kubectl_creates_config_maps_and_secrets(shell: Shell) -> None:
    shell.write("tides.txt", "low\nhigh\n")
    (shell.folder / "seal.bin").write_bytes(b"\xff\x00\xfe")
    await every(
        shell,
        {
            "create configmap chart --from-literal=depth=9 --from-file=tides.txt --from-file=seal.bin": (
                "configmap/chart created\n"
            ),
            "create secret generic key --from-literal=word=ahoy --from-file=seal=seal.bin": "secret/key created\n",
            "create secret docker-registry pull --docker-server=registry.example --docker-username=jo"
            " --docker-password=ahoy": "secret/pull created\n",
        },
    )
    assert await shell("get configmap chart -o jsonpath='{.data}{.binaryData}'") == (
        r'{"depth":"9","tides.txt":"low\nhigh\n"}{"seal.bin":"/wD+"}'
    )
    assert await shell("get secrets") == page("""
        NAME   TYPE                             DATA   AGE
        key    Opaque                           2      0s
        pull   kubernetes.io/dockerconfigjson   1      0s
    """)
    assert await shell("get secret key -o jsonpath='{.data}'") == '{"seal":"/wD+","word":"YWhveQ=="}'
    assert await shell("describe secret key") == page("""
        Name:         key
        Namespace:    suite-of-tests
        Labels:       <none>
        Annotations:  <none>

        Type:  Opaque

        Data
        ====
        seal:  3 bytes
        word:  4 bytes
    """)


async def test_kubectl_creates_workloads(shell: Shell) -> None:
    await every(
        shell,
        {
            "create deployment fleet --image=registry.example/fleet:1 --replicas=3": (
                "deployment.apps/fleet created\n"
            ),
            "create job survey --image=registry.example/survey:1 -- measure --deep": "job.batch/survey created\n",
            "create cronjob watch --image=registry.example/watch:1 --schedule='0 */4 * * *'": (
                "cronjob.batch/watch created\n"
            ),
            "run bridge --image=registry.example/bridge:1 --labels=deck=top --env=COURSE=north --port=80": (
                "pod/bridge created\n"
            ),
            "create poddisruptionbudget fleet --selector=app=fleet --min-available=50%": (
                "poddisruptionbudget.policy/fleet created\n"
            ),
        },
    )
    await every(
        shell,
        {
            "get deployments -o wide": page("""
                NAME    READY   UP-TO-DATE   AVAILABLE   AGE   CONTAINERS   IMAGES                     SELECTOR
                fleet   0/3     0            0           0s    fleet        registry.example/fleet:1   app=fleet
            """),
            "get jobs": page("""
                NAME     STATUS    COMPLETIONS   DURATION   AGE
                survey   Running   0/1                      0s
            """),
            "get cronjobs": page("""
                NAME    SCHEDULE      TIMEZONE   SUSPEND   ACTIVE   LAST SCHEDULE   AGE
                watch   0 */4 * * *   <none>     False     0        <none>          0s
            """),
            "get pods -o wide": page("""
                NAME     READY   STATUS    RESTARTS   AGE   IP       NODE     NOMINATED NODE   READINESS GATES
                bridge   0/1     Pending   0          0s    <none>   <none>   <none>           <none>
            """),
            "get poddisruptionbudgets": page("""
                NAME    MIN AVAILABLE   MAX UNAVAILABLE   ALLOWED DISRUPTIONS   AGE
                fleet   50%             N/A               0                     0s
            """),
            "get all -o name": page("""
                pod/bridge
                deployment.apps/fleet
                cronjob.batch/watch
                job.batch/survey
            """),
            "get job survey -o jsonpath='{.spec.template.spec.containers[0].command} {.spec.completions}'": (
                '["measure","--deep"] 1'
            ),
        },
    )


async def test_kubectl_creates_roles_and_bindings(shell: Shell) -> None:
    named = shell.namespace
    await every(
        shell,
        {
            "create serviceaccount pilot": "serviceaccount/pilot created\n",
            "create role reader --verb=get,list --resource=pods,deployments.apps --resource-name=fleet": (
                "role.rbac.authorization.k8s.io/reader created\n"
            ),
            f"create rolebinding reading --role=reader --user=jo --group=crew --serviceaccount={named}:pilot": (
                "rolebinding.rbac.authorization.k8s.io/reading created\n"
            ),
            f"create clusterrole {named}-lookout --verb=get --non-resource-url=/lighthouse": (
                "clusterrole.rbac.authorization.k8s.io/suite-of-tests-lookout created\n"
            ),
            f"create clusterrolebinding {named}-lookout --clusterrole={named}-lookout --user=kim": (
                "clusterrolebinding.rbac.authorization.k8s.io/suite-of-tests-lookout created\n"
            ),
        },
    )
    await every(
        shell,
        {
            "get rolebindings -o wide": page("""
                NAME      ROLE          AGE   USERS   GROUPS   SERVICEACCOUNTS
                reading   Role/reader   0s    jo      crew     suite-of-tests/pilot
            """),
            "describe role reader": page("""
                Name:         reader
                Labels:       <none>
                Annotations:  <none>
                PolicyRule:
                  Resources         Non-Resource URLs  Resource Names  Verbs
                  ---------         -----------------  --------------  -----
                  pods              []                 [fleet]         [get list]
                  deployments.apps  []                 [fleet]         [get list]
            """),
            f"get clusterrole {named}-lookout -o jsonpath='{{.rules}}'": (
                '[{"nonResourceURLs":["/lighthouse"],"verbs":["get"]}]'
            ),
            f"get clusterrolebinding {named}-lookout -o wide": page("""
                NAME                     ROLE                                 AGE   USERS   GROUPS   SERVICEACCOUNTS
                suite-of-tests-lookout   ClusterRole/suite-of-tests-lookout   0s    kim
            """),
        },
    )


async def test_kubectl_creates_quotas_and_priority_classes(shell: Shell) -> None:
    await every(
        shell,
        {
            "create quota berths --hard=count/ships.kubectl.suite.fairway.dev=100": (
                "resourcequota/berths created\n"
            ),
            f"create priorityclass {shell.namespace} --value=5 --description='first out'": (
                "priorityclass.scheduling.k8s.io/suite-of-tests created\n"
            ),
        },
    )
    assert await shell("get quota berths -o jsonpath='{.spec.hard}'") == (
        '{"count/ships.kubectl.suite.fairway.dev":"100"}'
    )
    assert await shell(f"get priorityclass {shell.namespace} -o jsonpath='{{.value}} {{.description}}'") == (
        "5 first out"
    )


async def test_pod_gets_the_priority_of_its_class(shell: Shell) -> None:
    name = shell.namespace
    await shell(f"create priorityclass {name} --value=5 --preemption-policy=Never")
    chosen = json.dumps({"spec": {"priorityClassName": name}})
    line = f"run bridge --image=registry.example/bridge:1 --overrides='{chosen}'"
    async with asyncio.timeout(DEADLINE):
        while (await shell.run(f"{line} --dry-run=server")).status:
            pass  # a real hub learns of a new class a moment later
    assert await shell(line) == "pod/bridge created\n"
    assert await shell("get pod bridge -o jsonpath='{.spec.priority} {.spec.preemptionPolicy}'") == "5 Never"
    unknown = json.dumps({"spec": {"priorityClassName": "admiral"}})
    assert await shell.refused(f"run engine --image=registry.example/engine:1 --overrides='{unknown}'") == (
        'Error from server (Forbidden): pods "engine" is forbidden: no PriorityClass with name admiral was found\n'
    )
    await shell(f"delete priorityclass {name}")


async def test_new_namespace_is_active_and_has_a_service_account(shell: Shell) -> None:
    assert await shell(
        "wait --for=create serviceaccount/default configmap/kube-root-ca.crt --timeout=100s"
    ) == page(
        """
        serviceaccount/default condition met
        configmap/kube-root-ca.crt condition met
    """
    )
    assert await shell(f"get namespace {shell.namespace} --show-labels") == page("""
        NAME             STATUS   AGE   LABELS
        suite-of-tests   Active   0s    kubernetes.io/metadata.name=suite-of-tests
    """)
    assert await shell("get serviceaccounts") == page("""
        NAME      AGE
        default   0s
    """)


async def test_created_token_has_subject_and_audience(shell: Shell) -> None:
    await shell("create serviceaccount pilot")
    token = await shell("create token pilot --duration=15m --audience=harbour")
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "==="))
    assert claims["aud"] == ["harbour"]
    assert claims["exp"] - claims["iat"] == 15 * 60
    assert claims["sub"] == f"system:serviceaccount:{shell.namespace}:pilot"
    assert claims["kubernetes.io"]["namespace"] == shell.namespace
    assert claims["kubernetes.io"]["serviceaccount"]["name"] == "pilot"
    assert await shell.refused("create token pilot --duration=1s") == (
        'error: failed to create token: TokenRequest.authentication.k8s.io "" is invalid:'
        " spec.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes\n"
    )


async def test_token_secret_is_filled(shell: Shell) -> None:
    await shell("create serviceaccount pilot")
    await shell(
        "create -f -",
        given="""
            apiVersion: v1
            kind: Secret
            metadata:
              name: pilot
              annotations: {kubernetes.io/service-account.name: pilot}
            type: kubernetes.io/service-account-token
        """,
    )
    assert await shell("wait --for=jsonpath='{.data.token}' secret/pilot --timeout=100s") == (
        "secret/pilot condition met\n"
    )
    filled = json.loads(await shell("get secret pilot -o json"))
    assert sorted(filled["data"]) == ["ca.crt", "namespace", "token"]
    assert base64.b64decode(filled["data"]["namespace"]).decode() == shell.namespace


async def test_generated_names_have_the_prefix(shell: Shell) -> None:
    document = """
        apiVersion: kubectl.suite.fairway.dev/v1
        kind: Ship
        metadata:
          generateName: raft-
        spec:
          port: kiel
    """
    first, second = await asyncio.gather(*(shell("create -o name -f -", given=document) for _ in range(2)))
    assert first.startswith("ship.kubectl.suite.fairway.dev/raft-")
    assert first != second
    assert await shell.refused("apply -f -", given=document) == (
        "error: from raft-: cannot use generate name with apply\n"
    )


async def test_kubectl_creates_documents_and_lists_of_one_stream(shell: Shell) -> None:
    documents = """
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: chart}
        ---
        # nothing but a remark
        ---
        apiVersion: v1
        kind: List
        items:
          - apiVersion: v1
            kind: Secret
            metadata: {name: key}
            stringData: {word: ahoy}
          - apiVersion: kubectl.suite.fairway.dev/v1
            kind: Ship
            metadata: {name: anna}
            spec: {port: kiel}
    """
    assert await shell("create -f -", given=documents) == page("""
        configmap/chart created
        secret/key created
        ship.kubectl.suite.fairway.dev/anna created
    """)
    assert await shell("get secret key -o jsonpath='{.data}{.stringData}'") == '{"word":"YWhveQ=="}'
    assert await shell("get -f - -o name", given=documents) == page("""
        configmap/chart
        secret/key
        ship.kubectl.suite.fairway.dev/anna
    """)


async def test_server_dry_run_create_shows_defaults(shell: Shell) -> None:
    document = """
        apiVersion: kubectl.suite.fairway.dev/v1
        kind: Ship
        metadata: {name: anna}
        spec: {port: kiel}
    """
    assert await shell("create --dry-run=server -o yaml -f -", given=document) == page("""
        apiVersion: kubectl.suite.fairway.dev/v1
        kind: Ship
        metadata:
          creationTimestamp: "<time>"
          generation: 1
          name: anna
          namespace: suite-of-tests
          uid: <uid>
        spec:
          boats: 1
          port: kiel
    """)
    assert await shell("create --dry-run=server -f -", given=document) == (
        "ship.kubectl.suite.fairway.dev/anna created (server dry run)\n"
    )
    assert await shell("get ships -o name") == ""
