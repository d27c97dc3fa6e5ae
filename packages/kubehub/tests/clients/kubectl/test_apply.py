"""kubectl apply: applied fields are set, fields no longer applied are removed, fields of others stay."""

from clients.kubectl.shell import Shell, page

CHART = """
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: chart
      labels:
        sea: north
        scale: small
    data:
      depth: "9"
      buoys: "4"
"""
REDRAWN = """
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: chart
      labels:
        sea: north
    data:
      depth: "11"
"""
SHIP = """
    apiVersion: kubectl.suite.fairway.dev/v1
    kind: Ship
    metadata:
      name: anna
    spec:
      port: kiel
      stops: [lübeck, rostock]
      crew:
        - name: jo
          rank: captain
        - name: kim
          rank: cook
"""
FLEET = """
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: fleet
    spec:
      replicas: 2
      selector:
        matchLabels: {app: fleet}
      template:
        metadata:
          labels: {app: fleet}
        spec:
          containers:
            - name: bridge
              image: registry.example/bridge:1
              env:
                - {name: COURSE, value: north}
                - {name: SPEED, value: slow}
            - name: engine
              image: registry.example/engine:1
"""
CONFLICT = """\
error: Apply failed with 1 conflict: conflict with "{manager}"{what}: {field}
Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
* If you intend to manage all of these fields, please re-run the apply
  command with the `--force-conflicts` flag.
* If you do not intend to manage all of the fields, please edit your
  manifest to remove references to the fields that should keep their
  current managers.
* You may co-own fields by updating your manifest to match the existing
  value; in this case, you'll become the manager if the other manager(s)
  stop managing the field (remove it from their configuration).
See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts
"""
DATA = "get configmap chart -o jsonpath='{.metadata.labels} {.data}'"
OWNERS = (
    "get configmap chart --show-managed-fields -o jsonpath="
    r"""'{range .metadata.managedFields[*]}{.manager} {.operation} {.fieldsV1}{"\n"}{end}'"""
)


async def owners(shell: Shell) -> str:
    """Sorted: entries of one second have another order than those of two."""
    return "".join(sorted((await shell(OWNERS)).splitlines(keepends=True)))


async def test_kubectl_apply_creates_configures_and_leaves_unchanged(shell: Shell) -> None:
    assert await shell("apply -f -", given=CHART) == "configmap/chart created\n"
    assert await shell("apply -f -", given=CHART) == "configmap/chart unchanged\n"
    assert await shell("apply -f -", given=REDRAWN) == "configmap/chart configured\n"
    assert await shell("apply -f -", given=REDRAWN) == "configmap/chart unchanged\n"


async def test_kubectl_apply_removes_own_fields_and_keeps_others(shell: Shell) -> None:
    await shell("apply -f -", given=CHART)
    await shell("""patch configmap chart --type=merge -p '{"data": {"wrecks": "2"}}'""")
    await shell("label configmap chart drawn-by=jo")

    await shell("apply -f -", given=REDRAWN)

    assert await shell("get configmap chart -o yaml") == page("""
        apiVersion: v1
        data:
          depth: "11"
          wrecks: "2"
        kind: ConfigMap
        metadata:
          annotations:
            kubectl.kubernetes.io/last-applied-configuration: |
              {"apiVersion":"v1","data":{"depth":"11"},"kind":"ConfigMap","metadata":{"annotations":{},"labels":{"sea":"north"},"name":"chart","namespace":"suite-of-tests"}}
          creationTimestamp: "<time>"
          labels:
            drawn-by: jo
            sea: north
          name: chart
          namespace: suite-of-tests
          resourceVersion: <version>
          uid: <uid>
    """)


async def test_kubectl_apply_merges_lists_of_built_in_kinds_by_key(shell: Shell) -> None:
    await shell("apply -f -", given=FLEET)
    await shell("set env deployment/fleet -c bridge LOAD=full")
    await shell("set image deployment/fleet engine=registry.example/engine:2")
    lean = FLEET.replace("                - {name: SPEED, value: slow}\n", "").replace(
        "      replicas: 2\n", ""
    )

    assert await shell("apply -f -", given=lean.replace("bridge:1", "bridge:3")) == (
        "deployment.apps/fleet configured\n"
    )

    shown = await shell(
        "get deployment fleet -o jsonpath='{.spec.replicas}{range .spec.template.spec.containers[*]}"
        " {.image} {.env}{end}'"
    )
    assert shown == (
        "1"  # the default, because no manager sets 2
        ' registry.example/bridge:3 [{"name":"COURSE","value":"north"},{"name":"LOAD","value":"full"}]'
        " registry.example/engine:1"
    )


async def test_kubectl_apply_replaces_lists_of_custom_kinds(shell: Shell) -> None:
    assert await shell("apply -f -", given=SHIP) == "ship.kubectl.suite.fairway.dev/anna created\n"
    await shell(
        """patch ship anna --type=json -p '[{"op": "add", "path": "/spec/stops/-", "value": "wismar"}]'"""
    )
    assert await shell("apply -f -", given=SHIP) == "ship.kubectl.suite.fairway.dev/anna configured\n"
    alone = SHIP.replace("        - name: kim\n          rank: cook\n", "")
    assert await shell("apply -f -", given=alone) == "ship.kubectl.suite.fairway.dev/anna configured\n"
    assert await shell("get ship anna -o jsonpath='{.spec}'") == (
        '{"boats":1,"crew":[{"name":"jo","rank":"captain"}],"port":"kiel","stops":["lübeck","rostock"]}'
    )


async def test_kubectl_apply_warns_and_adopts_a_created_object(shell: Shell) -> None:
    await shell("create configmap chart --from-literal=depth=9 --from-literal=tide=low")
    shown = await shell.run("apply -f -", given=REDRAWN)
    assert (shown.status, shown.output) == (0, "configmap/chart configured\n")
    assert shown.errors == (
        "Warning: resource configmaps/chart is missing the kubectl.kubernetes.io/last-applied-configuration"
        " annotation which is required by kubectl apply. kubectl apply should only be used on resources created"
        " declaratively by either kubectl create --save-config or kubectl apply. The missing annotation will be"
        " patched automatically.\n"
    )
    assert await shell(DATA) == '{"sea":"north"} {"depth":"11","tide":"low"}'


async def test_kubectl_apply_prune_deletes_objects_not_in_the_files(shell: Shell) -> None:
    shell.write("both.yaml", "\n---\n".join([CHART, REDRAWN.replace("name: chart", "name: sketch")]))
    shell.write("one.yaml", REDRAWN)
    await shell("apply -f both.yaml")
    await shell("create configmap untold")
    await shell("label configmap untold sea=north")
    assert await shell("apply --prune -l sea=north --prune-allowlist=core/v1/ConfigMap -f one.yaml") == page("""
        configmap/chart configured
        configmap/sketch pruned
    """)
    assert await shell("get configmaps -l sea=north -o name") == "configmap/chart\nconfigmap/untold\n"


async def test_server_side_apply_owns_only_the_fields_it_sets(shell: Shell) -> None:
    assert await shell("apply --server-side -f -", given=CHART) == "configmap/chart serverside-applied\n"
    await shell("""patch configmap chart --type=merge -p '{"data": {"wrecks": "2"}}'""")
    assert await shell("apply --server-side -f -", given=REDRAWN) == "configmap/chart serverside-applied\n"
    assert await shell(DATA) == '{"sea":"north"} {"depth":"11","wrecks":"2"}'
    assert await owners(shell) == page("""
        kubectl Apply {"f:data":{"f:depth":{}},"f:metadata":{"f:labels":{"f:sea":{}}}}
        kubectl-patch Update {"f:data":{"f:wrecks":{}}}
    """)


async def test_server_side_apply_conflicts_unless_forced(shell: Shell) -> None:
    await shell("apply --server-side --field-manager=jo -f -", given=CHART)

    assert await shell.refused(
        "apply --server-side --field-manager=kim -f -", given=REDRAWN
    ) == CONFLICT.format(manager="jo", what="", field=".data.depth")
    assert await shell(DATA) == '{"scale":"small","sea":"north"} {"buoys":"4","depth":"9"}'

    assert await shell("apply --server-side --field-manager=kim --force-conflicts -f -", given=REDRAWN) == (
        "configmap/chart serverside-applied\n"
    )
    assert await owners(shell) == page("""
        jo Apply {"f:data":{"f:buoys":{}},"f:metadata":{"f:labels":{"f:scale":{},"f:sea":{}}}}
        kim Apply {"f:data":{"f:depth":{}},"f:metadata":{"f:labels":{"f:sea":{}}}}
    """)
    assert await shell(DATA) == '{"scale":"small","sea":"north"} {"buoys":"4","depth":"11"}'


async def test_server_side_apply_merges_the_keyed_lists_of_a_custom_kind(shell: Shell) -> None:
    await shell("apply --server-side --field-manager=jo -f -", given=SHIP)
    mate = """
        apiVersion: kubectl.suite.fairway.dev/v1
        kind: Ship
        metadata:
          name: anna
        spec:
          crew:
            - name: mo
              rank: mate
    """
    await shell("apply --server-side --field-manager=kim -f -", given=mate)
    alone = SHIP.replace("        - name: kim\n          rank: cook\n", "")
    await shell("apply --server-side --field-manager=jo -f -", given=alone)
    assert await shell("get ship anna -o jsonpath='{.spec.crew}'") == (
        '[{"name":"jo","rank":"captain"},{"name":"mo","rank":"mate"}]'
    )
    assert await shell.refused(
        "apply --server-side --field-manager=kim -f -", given=mate.replace("name: mo", "name: jo")
    ) == CONFLICT.format(manager="jo", what="", field='.spec.crew[name="jo"].rank')


async def test_apply_conflict_with_an_update_names_manager_and_time(shell: Shell) -> None:
    await shell("create configmap chart --from-literal=depth=9")
    assert await shell.refused(
        "apply --server-side --field-manager=jo -f -", given=REDRAWN
    ) == CONFLICT.format(manager="kubectl-create", what=" using v1", field=".data.depth")


async def test_server_side_apply_takes_over_fields_of_client_side_apply(shell: Shell) -> None:
    await shell("apply -f -", given=CHART)
    await shell("""patch configmap chart --type=merge -p '{"data": {"wrecks": "2"}}'""")
    assert await shell("apply --server-side -f -", given=CHART) == "configmap/chart serverside-applied\n"
    told = "kubectl.kubernetes.io/last-applied-configuration"
    assert await owners(shell) == (
        'kubectl Apply {"f:data":{"f:buoys":{},"f:depth":{}},"f:metadata":{"f:labels":{"f:scale":{},"f:sea":{}}}}\n'
        f'kubectl-last-applied Apply {{"f:metadata":{{"f:annotations":{{"f:{told}":{{}}}}}}}}\n'
        'kubectl-patch Update {"f:data":{"f:wrecks":{}}}\n'
    )
    assert await shell("apply --server-side -f -", given=REDRAWN) == "configmap/chart serverside-applied\n"
    assert await shell(DATA) == '{"sea":"north"} {"depth":"11","wrecks":"2"}'


async def test_kubectl_diff_without_changes_exits_0(shell: Shell) -> None:
    documents = "\n---\n".join([CHART, SHIP, FLEET])
    await shell("apply -f -", given=documents)
    assert await shell("diff -f -", given=documents) == ""
    await shell("apply --server-side -f -", given=SHIP)
    assert await shell("diff --server-side -f -", given=SHIP) == ""


async def test_kubectl_diff_shows_changes_and_exits_1(shell: Shell) -> None:
    await shell("apply -f -", given=CHART)
    changed = SHIP.replace("anna", "berta")
    env = {"KUBECTL_EXTERNAL_DIFF": "diff -N -u --label live --label merged"}
    shown = await shell.run("diff -f -", given=REDRAWN, env=env)
    assert (shown.status, shown.errors) == (1, "")
    assert shown.output.partition("\n")[2] == page("""
        --- live
        +++ merged
        @@ -1,7 +1,6 @@
         apiVersion: v1
         data:
        -  buoys: "4"
        -  depth: "9"
        +  depth: "11"
         kind: ConfigMap
         metadata:
           annotations:
        @@ -9,7 +8,6 @@
               {"apiVersion":"v1","data":{"buoys":"4","depth":"9"},"kind":"ConfigMap","metadata":{"annotations":{},"labels":{"scale":"small","sea":"north"},"name":"chart","namespace":"suite-of-tests"}}
           creationTimestamp: "<time>"
           labels:
        -    scale: small
             sea: north
           name: chart
           namespace: suite-of-tests
    """)
    shown = await shell.run("diff -f -", given=changed, env=env)
    assert (shown.status, shown.errors) == (1, "")
    assert shown.output.partition("\n")[2] == page("""
        --- live
        +++ merged
        @@ -0,0 +1,19 @@
        +apiVersion: kubectl.suite.fairway.dev/v1
        +kind: Ship
        +metadata:
        +  creationTimestamp: "<time>"
        +  generation: 1
        +  name: berta
        +  namespace: suite-of-tests
        +  uid: <uid>
        +spec:
        +  boats: 1
        +  crew:
        +  - name: jo
        +    rank: captain
        +  - name: kim
        +    rank: cook
        +  port: kiel
        +  stops:
        +  - lübeck
        +  - rostock
    """)


async def test_dry_run_apply_writes_nothing(shell: Shell) -> None:
    assert await shell("apply --dry-run=client -f -", given=CHART) == "configmap/chart created (dry run)\n"
    assert await shell("apply --dry-run=server -f -", given=CHART) == (
        "configmap/chart created (server dry run)\n"
    )
    assert await shell.refused("get configmap chart") == (
        'Error from server (NotFound): configmaps "chart" not found\n'
    )
    await shell("apply -f -", given=CHART)
    assert await shell("apply --dry-run=server -o jsonpath='{.data}' -f -", given=REDRAWN) == '{"depth":"11"}'
    assert await shell(DATA) == '{"scale":"small","sea":"north"} {"buoys":"4","depth":"9"}'


async def test_server_dry_run_validates(shell: Shell) -> None:
    assert (
        await shell.refused("apply --dry-run=server -f -", given=SHIP.replace("kiel", "kiel-holtenau"))
        == 'The Ship "anna" is invalid: spec.port: Too long: may not be more than 12 bytes\n'
    )
