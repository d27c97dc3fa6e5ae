"""Error messages of kubectl for rejected requests."""

import asyncio

from clients.kubectl.shell import Shell

SHIP = """
    apiVersion: kubectl.suite.fairway.dev/v1
    kind: Ship
    metadata:
      name: anna
    spec:
      port: kiel
"""
POD = """
    apiVersion: v1
    kind: Pod
    metadata:
      name: bridge
    spec:
      containers:
        - name: main
          image: registry.example/bridge:1
"""


async def refusals(shell: Shell, expected: dict[str, str]) -> None:
    shown = await asyncio.gather(*(shell.refused(line) for line in expected))
    assert dict(zip(expected, shown, strict=True)) == expected


async def test_unknown_kinds_and_objects_are_reported_by_kubectl(shell: Shell) -> None:
    await refusals(
        shell,
        {
            "get submarines": """error: the server doesn't have a resource type "submarines"\n""",
            "get ships.nowhere.example": """error: the server doesn't have a resource type "ships"\n""",
            "get ship nemo": 'Error from server (NotFound): ships.kubectl.suite.fairway.dev "nemo" not found\n',
            "get pod nemo": 'Error from server (NotFound): pods "nemo" not found\n',
            "get node nemo": 'Error from server (NotFound): nodes "nemo" not found\n',
            "describe secret nemo": 'Error from server (NotFound): secrets "nemo" not found\n',
            "delete deployment nemo": ('Error from server (NotFound): deployments.apps "nemo" not found\n'),
            "scale deployment nemo --replicas=1": (
                'Error from server (NotFound): deployments.apps "nemo" not found\n'
            ),
            "label configmap nemo a=b": 'Error from server (NotFound): configmaps "nemo" not found\n',
            "patch ship nemo --type=merge -p '{}'": (
                'Error from server (NotFound): ships.kubectl.suite.fairway.dev "nemo" not found\n'
            ),
            "create token nemo": 'error: failed to create token: serviceaccounts "nemo" not found\n',
        },
    )


async def test_missing_namespace_is_reported_by_kubectl(shell: Shell) -> None:
    await refusals(
        shell,
        {
            "-n nowhere create configmap chart": (
                'error: failed to create configmap: namespaces "nowhere" not found\n'
            ),
            "-n nowhere run bridge --image=registry.example/bridge:1": (
                'Error from server (NotFound): namespaces "nowhere" not found\n'
            ),
            "-n nowhere get configmap chart": (
                'Error from server (NotFound): namespaces "nowhere" not found\n'
            ),
        },
    )
    assert await shell.refused("-n nowhere create -f -", given=SHIP) == (
        'Error from server (NotFound): error when creating "STDIN": namespaces "nowhere" not found\n'
    )
    shown = await shell.run("-n nowhere get ships")
    assert (shown.status, shown.errors) == (0, "No resources found in nowhere namespace.\n")
    elsewhere = SHIP.replace("name: anna", "name: anna\n      namespace: elsewhere")
    assert await shell.refused(f"-n {shell.namespace} create -f -", given=elsewhere) == (
        'error: the namespace from the provided object "elsewhere" does not match the namespace'
        " \"suite-of-tests\". You must pass '--namespace=elsewhere' to perform this operation.\n"
    )


async def test_unknown_fields_are_rejected_with_their_paths(shell: Shell) -> None:
    wrong = SHIP.replace("port: kiel", "port: kiel\n      mast: 3\n      cargo: {good: salt}")
    assert await shell.refused("create -f -", given=wrong) == (
        'Error from server (BadRequest): error when creating "STDIN": Ship in version "v1" cannot be handled as a'
        ' Ship: strict decoding error: unknown field "spec.cargo.good", unknown field "spec.mast"\n'
    )
    wrong = POD.replace("image:", "imagge:")
    assert await shell.refused("create -f -", given=wrong) == (
        'Error from server (BadRequest): error when creating "STDIN": Pod in version "v1" cannot be handled as a'
        ' Pod: strict decoding error: unknown field "spec.containers[0].imagge"\n'
    )
    assert await shell.refused("apply -f -", given=wrong) == (
        'Error from server (BadRequest): error when creating "STDIN": Pod in version "v1" cannot be handled as a'
        ' Pod: strict decoding error: unknown field "spec.containers[0].imagge"\n'
    )


async def test_unknown_fields_are_dropped_with_or_without_a_warning(shell: Shell) -> None:
    wrong = SHIP.replace("port: kiel", "port: kiel\n      mast: 3")
    shown = await shell.run("create --validate=warn -f -", given=wrong)
    assert (shown.status, shown.output) == (0, "ship.kubectl.suite.fairway.dev/anna created\n")
    assert shown.errors == 'Warning: unknown field "spec.mast"\n'
    assert await shell("get ship anna -o jsonpath='{.spec}'") == '{"boats":1,"port":"kiel"}'
    assert await shell("create --validate=ignore -f -", given=wrong.replace("anna", "berta")) == (
        "ship.kubectl.suite.fairway.dev/berta created\n"
    )
    shown = await shell.run(
        "create --validate=warn -f -", given=POD.replace("image:", "color: red\n          image:")
    )
    assert (shown.status, shown.output) == (0, "pod/bridge created\n")
    assert shown.errors == 'Warning: unknown field "spec.containers[0].color"\n'


async def test_all_invalid_values_are_reported_together(shell: Shell) -> None:
    wrong = SHIP.replace("port: kiel", "flag: blue\n      boats: -1\n      crew: [{rank: cook}, {name: 1}]")
    told = (await shell.refused("create -f -", given=wrong)).splitlines()
    assert told[0] == 'The Ship "anna" is invalid:'
    assert sorted(told[1:]) == [  # the real one has no order
        "* .spec.boats: Invalid value: -1: should be a non-negative integer",
        "* spec.boats: Invalid value: -1: spec.boats in body should be greater than or equal to 0",
        "* spec.crew[0].name: Required value",
        '* spec.crew[1].name: Invalid value: "integer": spec.crew[1].name in body must be of type string: "integer"',
        '* spec.flag: Unsupported value: "blue": supported values: "red", "green"',
        "* spec.port: Required value",
    ]
    wrong = POD.replace("image: registry.example/bridge:1", "imagePullPolicy: Sometimes")
    told = (await shell.refused("create -f -", given=wrong)).splitlines()
    assert told[0] == 'The Pod "bridge" is invalid:'
    assert sorted(told[1:]) == [
        "* spec.containers[0].image: Required value",
        '* spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always",'
        ' "IfNotPresent", "Never"',
    ]
