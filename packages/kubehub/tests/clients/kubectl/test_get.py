"""kubectl get in every output format."""

import asyncio
import json

import pytest
from clients.kubectl.shell import Shell, page

SHIPS = "\n---\n".join(
    f"""
apiVersion: kubectl.suite.fairway.dev/v1
kind: Ship
metadata:
  name: {name}
  labels: {{size: {size}, home: {port}}}
spec:
  port: {port}
  boats: {boats}
  cargo: {{goods: {goods}, tonnes: {tonnes}}}
"""
    for name, size, port, boats, goods, tonnes in [
        ("anna", "small", "kiel", 2, "salt", 1.5),
        ("berta", "large", "kiel", 12, "coal", 900),
        ("cora", "small", "husum", 1, "fish", 3),
    ]
)


@pytest.fixture
async def ships(shell: Shell) -> Shell:
    await shell("create -f -", given=SHIPS)
    return shell


async def test_kubectl_get_shows_printer_columns_of_the_crd(ships: Shell) -> None:
    narrow, wide, one = await asyncio.gather(
        ships("get ships"), ships("get sh -o wide"), ships("get ship/cora --no-headers")
    )
    assert narrow == page("""
        NAME    PORT    BOATS   AFLOAT   AGE
        anna    kiel    2                0s
        berta   kiel    12               0s
        cora    husum   1                0s
    """)
    assert wide == page("""
        NAME    PORT    BOATS   AFLOAT   CARGO   AGE
        anna    kiel    2                salt    0s
        berta   kiel    12               coal    0s
        cora    husum   1                fish    0s
    """)
    assert one == "cora   husum   1           0s\n"


async def test_printer_column_shows_a_condition(ships: Shell) -> None:
    condition = '{"status": {"conditions": [{"type": "Afloat", "status": "False"}]}}'
    assert await ships(f"patch ship anna --subresource=status --type=merge -p '{condition}'") == (
        "ship.kubectl.suite.fairway.dev/anna patched\n"
    )
    assert await ships("get ship anna") == page("""
        NAME   PORT   BOATS   AFLOAT   AGE
        anna   kiel   2       False    0s
    """)


async def test_kubectl_get_yaml_shows_the_whole_object(ships: Shell) -> None:
    assert await ships("get ship anna -o yaml") == page("""
        apiVersion: kubectl.suite.fairway.dev/v1
        kind: Ship
        metadata:
          creationTimestamp: "<time>"
          generation: 1
          labels:
            home: kiel
            size: small
          name: anna
          namespace: suite-of-tests
          resourceVersion: <version>
          uid: <uid>
        spec:
          boats: 2
          cargo:
            goods: salt
            tonnes: 1.5
          port: kiel
    """)


async def test_kubectl_shows_managed_fields_on_request(ships: Shell) -> None:
    shown = json.loads(await ships("get ship cora -o json --show-managed-fields"))
    assert shown["metadata"]["managedFields"] == [
        {
            "apiVersion": "kubectl.suite.fairway.dev/v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:home": {}, "f:size": {}}},
                "f:spec": {
                    ".": {},
                    "f:boats": {},
                    "f:cargo": {".": {}, "f:goods": {}, "f:tonnes": {}},
                    "f:port": {},
                },
            },
            "manager": "kubectl-create",
            "operation": "Update",
            "time": "<time>",
        }
    ]


async def test_kubectl_get_sorts_by_a_field(ships: Shell) -> None:
    by_number, by_text = await asyncio.gather(
        ships("get ships --sort-by=.spec.boats"), ships("get ships --sort-by='{.spec.cargo.goods}' -o name")
    )
    assert by_number == page("""
        NAME    PORT    BOATS   AFLOAT   AGE
        cora    husum   1                0s
        anna    kiel    2                0s
        berta   kiel    12               0s
    """)
    assert by_text == page("""
        ship.kubectl.suite.fairway.dev/berta
        ship.kubectl.suite.fairway.dev/cora
        ship.kubectl.suite.fairway.dev/anna
    """)


async def test_kubectl_get_selects_by_labels_and_fields(ships: Shell) -> None:
    selected = {
        "-l size=small": "anna cora",
        "-l size!=small": "berta",
        "-l 'size in (small, large),home notin (husum)'": "anna berta",
        "-l size,!home": "",
        "--field-selector metadata.name=berta": "berta",
        "--field-selector metadata.name!=berta": "anna cora",
        "--field-selector spec.port=kiel -l size=small": "anna",
        "--field-selector spec.port!=kiel": "cora",
    }
    names = "-o jsonpath='{.items[*].metadata.name}'"
    shown = await asyncio.gather(*(ships(f"get ships {selector} {names}") for selector in selected))
    assert dict(zip(selected, shown, strict=True)) == selected


async def test_kubectl_get_shows_labels_as_columns(ships: Shell) -> None:
    assert await ships("get ships -L home,none --show-labels") == page("""
        NAME    PORT    BOATS   AFLOAT   AGE   HOME    NONE   LABELS
        anna    kiel    2                0s    kiel           home=kiel,size=small
        berta   kiel    12               0s    kiel           home=kiel,size=large
        cora    husum   1                0s    husum          home=husum,size=small
    """)


async def test_kubectl_get_in_chunks_shows_all_objects(ships: Shell) -> None:
    assert await ships("get ships --chunk-size=2") == await ships("get ships --chunk-size=0")
    assert await ships("get ships --chunk-size=1 -o name") == await ships("get ships -o name")


async def test_kubectl_get_of_several_kinds_prints_a_table_each(ships: Shell) -> None:
    await ships("create secret generic key --from-literal=a=b")
    await ships("label secret key home=kiel")
    assert await ships("get ships,secrets -l home=kiel") == page("""
        NAME                                   PORT   BOATS   AFLOAT   AGE
        ship.kubectl.suite.fairway.dev/anna    kiel   2                0s
        ship.kubectl.suite.fairway.dev/berta   kiel   12               0s

        NAME         TYPE     DATA   AGE
        secret/key   Opaque   1      0s
    """)
    assert await ships("get vessels -o name") == await ships("get ships -o name")
    assert await ships("get ship/cora secret/key -o name") == (
        "ship.kubectl.suite.fairway.dev/cora\nsecret/key\n"
    )


async def test_kubectl_get_of_all_namespaces_has_a_namespace_column(ships: Shell) -> None:
    shown = await ships("get ships -A --field-selector metadata.namespace!=default")
    header, *lines = (line.split() for line in shown.splitlines())
    assert header == ["NAMESPACE", "NAME", "PORT", "BOATS", "AFLOAT", "AGE"]
    assert [line for line in lines if line[0] == "suite-of-tests"] == [
        ["suite-of-tests", "anna", "kiel", "2", "0s"],
        ["suite-of-tests", "berta", "kiel", "12", "0s"],
        ["suite-of-tests", "cora", "husum", "1", "0s"],
    ]


async def test_kubectl_get_reports_missing_objects_beside_found_ones(ships: Shell) -> None:
    shown = await ships.run("get ship anna nemo")
    assert shown.status == 1
    assert shown.output == page("""
        NAME   PORT   BOATS   AFLOAT   AGE
        anna   kiel   2                0s
    """)
    assert shown.errors == 'Error from server (NotFound): ships.kubectl.suite.fairway.dev "nemo" not found\n'
    assert (
        await ships("get ship anna nemo --ignore-not-found -o name")
        == "ship.kubectl.suite.fairway.dev/anna\n"
    )


async def test_kubectl_watch_shows_all_event_types(ships: Shell) -> None:
    async with ships.running("get ships -w --output-watch-events -l home=kiel") as screen:
        assert await screen.lines(3) == page("""
            EVENT      NAME    PORT   BOATS   AFLOAT   AGE
            ADDED      anna    kiel   2                0s
            ADDED      berta   kiel   12               0s
        """)
        await ships("scale ship anna --replicas=3")
        assert await screen.lines(1) == "MODIFIED   anna    kiel   3                0s\n"
        await ships("label ship cora home=kiel --overwrite")
        assert await screen.lines(1) == "ADDED      cora    husum   1                0s\n"
        await ships("label ship berta home-")
        assert await screen.lines(1) == "DELETED    berta   kiel    12               0s\n"
        await ships("delete ship anna")
        assert await screen.lines(1) == "DELETED    anna    kiel    3                0s\n"


async def test_kubectl_watch_of_one_object_shows_its_changes(shell: Shell) -> None:
    await shell("create configmap chart")
    async with shell.running("get configmap chart --watch") as screen:
        assert await screen.lines(2) == page("""
            NAME    DATA   AGE
            chart   0      0s
        """)
        await shell("""patch configmap chart -p '{"data": {"depth": "9", "buoys": "4"}}'""")
        assert await screen.lines(1) == "chart   2      0s\n"


async def test_kubectl_watch_only_shows_later_changes(ships: Shell) -> None:
    async with ships.running("get ships --watch-only -o name") as screen:
        added = asyncio.create_task(screen.lines(1))
        for number in range(50):  # the watch begins some time; what comes before it is not shown
            await ships(f"label ship cora turn={number} --overwrite")
            if added.done():
                break
        assert await added == "ship.kubectl.suite.fairway.dev/cora\n"


async def test_kubectl_get_raw_shows_responses(ships: Shell) -> None:
    path = f"/apis/kubectl.suite.fairway.dev/v1/namespaces/{ships.namespace}/ships"
    one = json.loads(await ships(f"get --raw {path}/anna"))
    assert (one["kind"], one["spec"]["port"]) == ("Ship", "kiel")
    several = json.loads(await ships(f"get --raw {path}?limit=2"))
    assert several["kind"] == "ShipList"
    assert several["metadata"]["remainingItemCount"] == 1
    assert await ships("get --raw /readyz") == "ok"
    assert await ships.refused(f"get --raw {path}/nemo") == (
        'Error from server (NotFound): ships.kubectl.suite.fairway.dev "nemo" not found\n'
    )
    assert await ships.refused("get --raw /nowhere") == (
        "Error from server (NotFound): the server could not find the requested resource\n"
    )
