"""Compare the API of a hub with a model: codes, reasons, versions, remaining objects and watch events.

The model has the rules that clients rely on: which writes conflict, what a version identifies, when an object is
deleted.
"""

from dataclasses import replace
from itertools import count
from typing import Any, Literal

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chaos.api_model import (
    APPLY,
    JSON_PATCH,
    KINDS,
    MERGE,
    Key,
    Kind,
    Model,
    Object,
    path,
    read,
    typed,
    written,
)
from chaos.blocking import Answer, Document, Feed, Hub

NAMES = ("one", "two", "three")
FINALIZERS = ("fairway.dev/a", "fairway.dev/b")
MANAGER = "fieldManager=chaos"

kinds = st.sampled_from(KINDS)
names = st.sampled_from(NAMES)
values = st.sampled_from(["x", "y", "z"])
finalizers = st.lists(st.sampled_from(FINALIZERS), unique=True, max_size=2).map(tuple)
Claim = Literal["right", "wrong", "none"]
claims = st.sampled_from(["right", "wrong", "none"])

_namespaces = count()


class ApiMachine(RuleBasedStateMachine):
    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self.hub = hub
        self.model = Model()
        self.feeds: dict[Kind, tuple[Feed, int]] = {}

    @initialize()
    def begin(self) -> None:
        self.namespace = f"model-{next(_namespaces)}"
        made = self.hub.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        assert made.code == 201, made
        for kind in KINDS:
            version = self.hub.call("GET", self.path(kind)).body["metadata"]["resourceVersion"]
            self.model.newest = max(self.model.newest, int(version))
            feed = self.hub.watch(f"{self.path(kind)}?watch=true&resourceVersion={version}")
            assert feed.code == 200
            self.feeds[kind] = (feed, 0)

    def teardown(self) -> None:
        for feed, _ in self.feeds.values():
            feed.close()

    # Asking

    def path(self, kind: Kind, name: str = "") -> str:
        return path(kind, self.namespace, name)

    def document(self, key: Key, value: str, label: str, **metadata: Any) -> Document:
        kind, name = key
        given = {field: content for field, content in metadata.items() if content is not None}
        return {
            **typed(kind),
            "metadata": {"name": name, "labels": {"label": label}, **given},
            **written(kind, value),
        }

    def version(self, key: Key, claim: Claim) -> str | None:
        there = self.model.objects.get(key)
        return {"right": str(there.version if there else 1), "wrong": "1", "none": None}[claim]

    def uid(self, key: Key, claim: Claim) -> str | None:
        there = self.model.objects.get(key)
        wrong = "11111111-1111-1111-1111-111111111111"
        return {"right": there.uid if there else wrong, "wrong": wrong, "none": None}[claim]

    # Being answered

    def changed(self, key: Key, answer: Answer, wanted: Object, *, code: int = 200) -> None:
        """Check that the response is the new state and the model's; an equal object is not written."""
        assert answer.code == code, answer
        got = read(key[0], answer.body)
        before = self.model.objects.get(key)
        if before is not None and replace(wanted, version=before.version) == before:
            assert got == before
            return
        if wanted.deleting and not wanted.finalizers:
            # Deleted with its last finalizer. The version in the response has no meaning.
            assert replace(got, version=0) == replace(wanted, version=0)
            assert before is not None
            self.delete_from_model(key)
            return
        assert got == replace(wanted, version=got.version)
        self.model.put(key, got)

    def delete_from_model(self, key: Key) -> None:
        """Record a deletion, whose version only watchers receive."""
        feed = self.news(key[0])
        assert feed["type"] == "DELETED"
        assert feed["object"]["metadata"]["name"] == key[1]
        deleted = read(key[0], feed["object"])
        before = self.model.objects[key]
        assert replace(deleted, version=before.version) == before
        self.model.drop(key, deleted.version)
        stream, position = self.feeds[key[0]]
        self.feeds[key[0]] = (stream, position + 1)
        assert self.hub.call("GET", self.path(*key)).code == 404

    def refused(self, answer: Answer, code: int, reason: str) -> None:
        assert (answer.code, answer.reason) == (code, reason), answer
        assert answer.body["status"] == "Failure"

    # Watches

    def caught_up(self, kind: Kind) -> None:
        """Check that the watch sent all changes in order, and nothing else."""
        feed, position = self.feeds[kind]
        expected = [event for event in self.model.events if event.kind == kind]
        for event in expected[position:]:
            line = feed.next()
            assert (line["type"], line["object"]["metadata"]["name"]) == (event.type, event.name)
            assert read(kind, line["object"]) == event.object
        self.feeds[kind] = (feed, len(expected))

    def news(self, kind: Kind) -> Document:
        self.caught_up(kind)
        return self.feeds[kind][0].next()

    # Rules

    @rule(kind=kinds, name=names, value=values, label=values, kept=finalizers)
    def create(self, kind: Kind, name: str, value: str, label: str, kept: tuple[str, ...]) -> None:
        key = (kind, name)
        document = self.document(key, value, label, finalizers=list(kept) or None)
        answer = self.hub.call("POST", f"{self.path(kind)}?{MANAGER}", document)
        if key in self.model.objects:
            self.refused(answer, 409, "AlreadyExists")
            return
        assert answer.code == 201, answer
        got = read(kind, answer.body)
        generation = 1 if kind == "boats" else None
        assert got == Object(
            uid=got.uid, version=got.version, value=value, label=label, finalizers=kept, generation=generation
        )
        assert got.uid not in {event.object.uid for event in self.model.events}
        self.model.put(key, got)

    @rule(kind=kinds, name=names)
    def get(self, kind: Kind, name: str) -> None:
        answer = self.hub.call("GET", self.path(kind, name))
        there = self.model.objects.get((kind, name))
        if there is None:
            self.refused(answer, 404, "NotFound")
        else:
            assert answer.code == 200
            assert read(kind, answer.body) == there

    @rule(
        kind=kinds,
        name=names,
        value=values,
        label=values,
        kept=st.none() | finalizers,
        version=claims,
        uid=claims,
    )
    def update(
        self,
        kind: Kind,
        name: str,
        value: str,
        label: str,
        kept: tuple[str, ...] | None,
        version: Claim,
        uid: Claim,
    ) -> None:
        key = (kind, name)
        there = self.model.objects.get(key)
        wanted = kept if kept is not None else there.finalizers if there else ()
        document = self.document(
            key,
            value,
            label,
            finalizers=list(wanted) or None,
            resourceVersion=self.version(key, version),
            uid=self.uid(key, uid),
        )
        answer = self.hub.call("PUT", f"{self.path(kind, name)}?{MANAGER}", document)
        if there is None:
            self.refused(answer, 404, "NotFound")
        elif uid == "wrong":
            self.refused(answer, 409, "Conflict")
        elif kind == "boats" and version == "none":
            self.refused(answer, 422, "Invalid")
        elif version == "wrong":
            self.refused(answer, 409, "Conflict")
        elif there.deleting and not set(wanted) <= set(there.finalizers):
            self.refused(answer, 422, "Invalid")
        else:
            self.changed(key, answer, there.with_(value=value, label=label, finalizers=wanted))

    @rule(
        kind=kinds,
        name=names,
        value=st.none() | values,
        label=st.none() | values,
        kept=st.none() | finalizers,
        version=claims,
    )
    def merge(
        self,
        kind: Kind,
        name: str,
        value: str | None,
        label: str | None,
        kept: tuple[str, ...] | None,
        version: Claim,
    ) -> None:
        key = (kind, name)
        metadata: Document = {"resourceVersion": self.version(key, version)} if version != "none" else {}
        if label is not None:
            metadata["labels"] = {"label": label}
        if kept is not None:
            metadata["finalizers"] = list(kept) or None
        patch = {"metadata": metadata, **(written(kind, value) if value is not None else {})}
        answer = self.hub.call("PATCH", f"{self.path(kind, name)}?{MANAGER}", patch, type_=MERGE)
        self.patched(key, answer, value=value, label=label, kept=kept, stale=version == "wrong")

    def patched(
        self,
        key: Key,
        answer: Answer,
        *,
        value: str | None = None,
        label: str | None = None,
        kept: tuple[str, ...] | None = None,
        stale: bool = False,
    ) -> None:
        there = self.model.objects.get(key)
        if there is None:
            self.refused(answer, 404, "NotFound")
        elif stale:
            self.refused(answer, 409, "Conflict")
        elif kept is not None and there.deleting and not set(kept) <= set(there.finalizers):
            self.refused(answer, 422, "Invalid")
        else:
            given = {"value": value, "label": label, "finalizers": kept}
            changes = {field: content for field, content in given.items() if content is not None}
            self.changed(key, answer, there.with_(**changes))

    @rule(kind=kinds, name=names, expected=values, label=values)
    def test_api_replace_matches_the_model(self, kind: Kind, name: str, expected: str, label: str) -> None:
        key = (kind, name)
        there = self.model.objects.get(key)
        at = "/data/value" if kind == "configmaps" else "/spec/port"
        patch = [
            {"op": "test", "path": at, "value": expected},
            {"op": "replace", "path": "/metadata/labels/label", "value": label},
        ]
        answer = self.hub.call("PATCH", f"{self.path(kind, name)}?{MANAGER}", patch, type_=JSON_PATCH)
        if there is not None and there.value != expected:
            self.refused(answer, 422, "Invalid")
        else:
            self.patched(key, answer, label=label)

    @rule(kind=kinds, name=names, value=values, label=values)
    def apply(self, kind: Kind, name: str, value: str, label: str) -> None:
        key = (kind, name)
        document = self.document(key, value, label)
        query = "fieldManager=applier&force=true"
        answer = self.hub.call("PATCH", f"{self.path(kind, name)}?{query}", document, type_=APPLY)
        there = self.model.objects.get(key)
        if there is None:
            got = read(kind, answer.body)
            assert answer.code == 201, answer
            generation = 1 if kind == "boats" else None
            assert got == Object(
                uid=got.uid, version=got.version, value=value, label=label, generation=generation
            )
            self.model.put(key, got)
            return
        assert answer.code == 200, answer
        got = read(kind, answer.body)
        assert got == replace(there.with_(value=value, label=label), version=got.version)
        # Another manager of the same values is a change, too.
        if got.version != there.version:
            self.model.put(key, got)

    @rule(kind=kinds, name=names, version=claims, uid=claims)
    def delete(self, kind: Kind, name: str, version: Claim, uid: Claim) -> None:
        key = (kind, name)
        there = self.model.objects.get(key)
        conditions = {"uid": self.uid(key, uid), "resourceVersion": self.version(key, version)}
        given = {field: content for field, content in conditions.items() if content is not None}
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": given}
        answer = self.hub.call("DELETE", self.path(kind, name), options)
        if there is None:
            self.refused(answer, 404, "NotFound")
        elif "wrong" in (version, uid):
            self.refused(answer, 409, "Conflict")
        elif there.finalizers:
            self.marked(key, answer)
        else:
            assert answer.code == 200, answer
            assert answer.body["status"] == "Success"
            assert answer.body["details"]["uid"] == there.uid
            self.delete_from_model(key)

    def marked(self, key: Key, answer: Answer) -> None:
        """Record a deletion that waits for finalizers."""
        there = self.model.objects[key]
        generation = there.generation
        if generation is not None and not there.deleting:
            generation += 1
        self.changed(key, answer, replace(there, deleting=True, generation=generation))

    @rule(kind=kinds, label=values)
    def delete_some(self, kind: Kind, label: str) -> None:
        answer = self.hub.call("DELETE", f"{self.path(kind)}?labelSelector=label%3D{label}")
        assert answer.code == 200, answer
        chosen = [
            key for key, object_ in self.model.objects.items() if key[0] == kind and object_.label == label
        ]
        for key in sorted(chosen):
            there = self.model.objects[key]
            if not there.finalizers:
                self.delete_from_model(key)
            elif not there.deleting:
                live = self.hub.call("GET", self.path(*key))
                self.marked(key, live)

    @rule(kind=kinds, label=st.none() | values, limit=st.sampled_from([0, 1, 2]))
    def list(self, kind: Kind, label: str | None, limit: int) -> None:
        wanted = {
            key[1]: object_
            for key, object_ in sorted(self.model.objects.items())
            if key[0] == kind and label in (None, object_.label)
        }
        query = f"limit={limit}" + (f"&labelSelector=label%3D{label}" if label else "")
        got: dict[str, Object] = {}
        token = ""
        while True:
            page = self.hub.call(
                "GET", f"{self.path(kind)}?{query}" + (f"&continue={token}" if token else "")
            )
            assert page.code == 200, page
            assert not limit or len(page.body["items"]) <= limit
            got |= {item["metadata"]["name"]: read(kind, item) for item in page.body["items"]}
            token = page.body["metadata"].get("continue", "")
            if not token:
                break
        assert int(page.body["metadata"]["resourceVersion"]) >= self.model.newest
        assert (list_of(got), got) == (list_of(wanted), wanted)

    @precondition(lambda self: self.model.events)
    @rule(kind=kinds, data=st.data())
    def list_the_past(self, kind: Kind, data: st.DataObject) -> None:
        versions = [event.object.version for event in self.model.events]
        version = data.draw(st.sampled_from(versions), label="version")
        query = f"resourceVersion={version}&resourceVersionMatch=Exact"
        page = self.hub.call("GET", f"{self.path(kind)}?{query}")
        assert page.code == 200, page
        assert page.body["metadata"]["resourceVersion"] == str(version)
        got = {item["metadata"]["name"]: read(kind, item) for item in page.body["items"]}
        assert got == self.model.at(kind, version)

    @precondition(lambda self: self.model.events)
    @rule(data=st.data())
    def watch_from_the_past(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.model.events) - 1), label="after event")
        after = self.model.events[index]
        wanted = [event for event in self.model.events[index + 1 :] if event.kind == after.kind]
        feed = self.hub.watch(f"{self.path(after.kind)}?watch=true&resourceVersion={after.object.version}")
        try:
            for event in wanted:
                line = feed.next()
                assert (line["type"], read(after.kind, line["object"])) == (event.type, event.object)
        finally:
            feed.close()

    @invariant()
    def watchers_see_it_all(self) -> None:
        for kind in self.feeds:
            self.caught_up(kind)


def list_of(objects: dict[str, Object]) -> list[str]:
    return [*objects]


def test_api_responses_match_the_model(hub: Hub, length: int) -> None:
    class Machine(ApiMachine):
        def __init__(self) -> None:
            super().__init__(hub)

    run_state_machine_as_test(Machine, settings=settings(max_examples=40 * length, stateful_step_count=30))
