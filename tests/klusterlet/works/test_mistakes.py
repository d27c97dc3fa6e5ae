"""One manifest that cannot be applied is named, with what to do about it; the others are applied all the same."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairway.api.work import ManifestWork, ManifestWorkSpec, Workload
from fairway.klusterlet.works import messages
from fairway.klusterlet.works.applier import WorkState
from fairway.klusterlet.works.discovery import Discovery
from fairway.klusterlet.works.manifest import InvalidManifest, read
from fairway.klusterlet.works.reconcile import WorkReconciler
from klusterlet.works.harness import WorksHarness
from kubewire.api.salvage import salvage
from kubewire.client import SYSTEM_CLOCK, Client, Connection, Invalid, KubeError, NotFound

MEGABYTES = 3

# aiohttp warns about large bodies in memory.
large_bodies = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")


def secret(harness: WorksHarness, **fields: Any) -> dict[str, Any]:
    meta = {"name": "s", "namespace": harness.name}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, **fields}


async def test_bad_manifests_are_reported_and_good_ones_applied(small_world: WorksHarness) -> None:
    harness = small_world
    nowhere = f"{harness.name}-nowhere"
    bad: dict[str, dict[str, Any]] = {
        f"{messages.NO_NAME}; {messages.NO_NAME_REMEDY}": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {},
        },
        f"{messages.NO_NAMESPACE}; {messages.NO_NAMESPACE_REMEDY}": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "homeless"},
        },
        f"the namespace '{nowhere}' does not exist; {messages.NAMESPACE_REMEDY}": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "lost", "namespace": nowhere},
        },
        "the server doesn't have a resource type 'Cofigmap' in v1": {
            "apiVersion": "v1",
            "kind": "Cofigmap",
            "metadata": {"name": "typo", "namespace": harness.name},
        },
        f"; {messages.INVALID_REMEDY}": secret(harness, data={"k": "not base64!"}),
        f"{messages.DUPLICATE.format(first=7)}; {messages.DUPLICATE_REMEDY}": harness.config_map(
            "good", {"k": "other"}
        ),
    }
    first, *rest = bad.values()
    manifests = [first, harness.config_map("also-good", {}), *rest[:-1], harness.config_map("x", {})]
    good = harness.config_map("good", {"k": "1"})
    manifests += [good, rest[-1]]
    ordinals = [0, *range(2, 2 + len(rest[:-1])), len(manifests) - 1]
    assert manifests.index(good) == 7
    async with harness.agent():
        await harness.give("a", *manifests)
        for ordinal, expected in zip(ordinals, bad, strict=True):
            message = await harness.refused("a", ordinal)
            assert message.startswith(f"Failed to apply manifest: manifest {ordinal}")
            assert expected in message
        whole = harness.condition("a", "Applied")
        assert whole is not None
        assert whole.reason == "AppliedManifestWorkFailed"
        assert whole.message.startswith("Failed to apply manifest work: manifest 0 (ConfigMap): ")
        assert whole.message.endswith(" (and 5 more)")
        assert await harness.there() == {"good": {"k": "1"}, "also-good": {}, "x": {}}
        # Once all manifests are valid, no trace of the mistake remains.
        await harness.space(nowhere)
        await harness.give("a", good, {**rest[1]}, secret(harness, stringData={"k": "text"}))
        await harness.applied("a")


@large_bodies
async def test_too_large_manifest_is_reported(small_world: WorksHarness) -> None:
    harness = small_world
    huge = harness.config_map("huge", {"k": "x" * (1200 << 10)})
    async with harness.agent():
        await harness.give("a", huge, harness.config_map("one", {}))
        message = await harness.refused("a", 0)
        assert f"manifest 0 (ConfigMap {harness.name}/huge): " in message
        assert "Too long" in message
        await harness.eventually(lambda: set(harness.maps()) == {"one"})


@large_bodies
async def test_hub_rejects_invalid_and_oversized_works(small_world: WorksHarness) -> None:
    harness = small_world
    for manifest in ({"apiVersion": "v1", "metadata": {"name": "a"}}, {"kind": "Pod", "metadata": {}}):
        with pytest.raises(Invalid, match=r"spec\.workload\.manifests\[0\]"):
            await harness.give("a", manifest)
    with pytest.raises(KubeError, match=r"(?i)too large"):
        await harness.give("a", harness.config_map("huge", {"k": "x" * (MEGABYTES << 20)}))


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, "names no kind; "),
        ({"kind": "Pod", "metadata": {"name": "a"}}, "names no apiVersion; "),
        ({}, "names no apiVersion; "),
        (
            {"apiVersion": "a.b/c/d", "kind": "Thing", "metadata": {"name": "t"}},
            "the server doesn't have a resource",
        ),
        ({"apiVersion": 1, "kind": ["Pod"], "metadata": "none"}, "names no apiVersion; "),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "../x", "namespace": "n"}},
            "'../x' is not a valid name",
        ),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "a/b"}},
            "'a/b' is not a valid name",
        ),
    ],
)
async def test_invalid_work_of_lenient_hub_is_reported(
    small_world: WorksHarness, manifest: dict[str, Any], message: str
) -> None:
    work = ManifestWork(spec=ManifestWorkSpec(workload=Workload(manifests=(manifest,))))
    (reading,) = await read(work, Discovery(small_world.cluster))
    assert isinstance(reading, InvalidManifest)
    assert str(reading.refusal).startswith(message)


async def test_malicious_api_version_is_not_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def refuse(_method: str, path: str) -> None:
        asked.append(path)
        raise NotFound("no such path", code=404)

    malformed = (
        *("", "/", "/v1", "v1/", "a//v1", "a/b/v1", "../v1", "a/..", "./v1", "..", "-/v1"),
        *("v1?limit=1", "v1#x", "v1/../../v1", "a/%2e%2e", "v1%2fx", "v1;a", "v1\n", "\nv1", " v1", "a\\v1"),
        *("A/v1", "V1", "\u0661", "v\u0661", "\uff41/v1", "v1\x00"),
    )
    async with Client(Connection(server="https://127.0.0.1:1")) as client:
        monkeypatch.setattr(client, "request", refuse)
        discovery = Discovery(client)
        assert [await discovery.find(version, "Pod") for version in malformed] == [None] * len(malformed)
        assert asked == []
        for version in ("v1", "apps/v1", "my-group.example.com/v2beta1"):
            assert await discovery.find(version, "Pod") is None
    assert asked == ["/api/v1", "/apis/apps/v1", "/apis/my-group.example.com/v2beta1"]


async def test_forgotten_group_is_discovered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[bytes] = []

    async def serve(_method: str, _path: str) -> SimpleNamespace:
        return SimpleNamespace(body=b'{"resources":[{"name":"%s","kind":"Pod"}]}' % served[-1])

    async with Client(Connection(server="https://127.0.0.1:1")) as client:
        monkeypatch.setattr(client, "request", serve)
        discovery = Discovery(client)
        plurals = []
        for plural in (b"pods", b"other", b"other"):
            served.append(plural)
            resource = await discovery.find("v1", "Pod")
            assert resource is not None
            plurals.append(resource.plural)
            if len(plurals) == 2:
                discovery.forget("v1")
    assert plurals == ["pods", "pods", "other"]


async def test_object_of_temporarily_unserved_kind_is_kept(small_world: WorksHarness) -> None:
    harness = small_world
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"k": "1"}))
        await harness.applied("a")
        await harness.give("a", {**harness.config_map("one", {"k": "1"}), "apiVersion": "v9"})
        assert "doesn't have a resource type 'ConfigMap' in v9" in await harness.refused("a", 0)
        assert await harness.there() == {"one": {"k": "1"}}
        await harness.take_back("a")
        await harness.until_deleted("a")
    assert await harness.there() == {}


async def test_manifest_is_applied_when_its_namespace_appears(small_world: WorksHarness) -> None:
    harness = small_world
    later = f"{harness.name}-later"
    async with harness.agent():
        await harness.give(
            "a", {**harness.config_map("one", {}), "metadata": {"name": "one", "namespace": later}}
        )
        assert "does not exist" in await harness.refused("a", 0)
        await harness.space(later)
        await harness.applied("a")


class StatusOnly:
    """A hub on which only the status of a work can be written."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    async def patch(
        self, _resource: object, _name: str, body: dict[str, Any], **options: Any
    ) -> ManifestWork:
        assert options["subresource"] == "status"
        self.bodies.append(body["status"])
        return ManifestWork()


async def test_unreadable_spec_is_reported_and_objects_stay() -> None:
    raw = b'{"metadata":{"name":"w"},"spec":{"workload":{"manifests":[7]}}}'
    hub, untouchable = StatusOnly(), cast("Any", None)
    reconciler = WorkReconciler(
        hub=cast("Client", hub),
        cluster=untouchable,
        applied=untouchable,
        conflicts=untouchable,
        discovery=untouchable,
        clock=SYSTEM_CLOCK,
    )
    await reconciler.apply(salvage(raw, ManifestWork), WorkState(), attempt=0)
    (status,) = hub.bodies
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"]) == ("Applied", "False")
    assert condition["message"] == (
        "Failed to apply manifest work: spec.workload.manifests[0] cannot be read: "
        "Expected `object`, got `int`"
    )
