"""The checker of records accepts a correct hub, and finds every fault."""

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from chaos.durability import Problem, format_problems, problems
from chaos.honest_hub import HonestHub
from chaos.record import Event, Key, Listing, Record, State, Watching, Write

SEEDS = range(12)


def honest(seed: int) -> Record:
    return HonestHub(random.Random(seed)).run(requests=300)


@pytest.mark.parametrize("seed", SEEDS)
def test_checker_accepts_the_record_of_a_correct_hub(seed: int) -> None:
    reported = problems(honest(seed))
    assert not reported, format_problems(reported)


def rewrite(record: Record, change: Callable[[list[Event]], Iterable[Event]]) -> None:
    """Replace a state in the events of all watchers."""
    for watch in record.watches:
        watch.events = list(change(watch.events))
        watch.bookmarks.clear()


def done(record: Record, *verbs: str) -> Write:
    """Return an acknowledged write that is not the last of its key."""
    writes = [write for write in record.writes if write.outcome == "done" and write.verb in verbs]
    return writes[len(writes) // 2]


def event_of(record: Record, write: Write) -> Event:
    events = {event.state.token: event for watch in record.watches for event in watch.events}
    return events[write.token]


def busiest(record: Record) -> Watching:
    return max(record.watches, key=lambda watch: len(watch.events))


# Each takes an honest record and makes one lie of it.


def lose_an_acknowledged_write(record: Record) -> None:
    lost = done(record, "patch", "apply")
    rewrite(record, lambda events: (e for e in events if e.state.token != lost.token))


def lose_an_acknowledged_deletion(record: Record) -> None:
    lost = done(record, "delete")
    rewrite(record, lambda events: (e for e in events if e.type != "DELETED" or e.state.uid != lost.uid))


def send_versions_in_another_order(record: Record) -> None:
    watch = busiest(record)
    watch.bookmarks.clear()
    at = len(watch.events) // 2
    watch.events[at : at + 2] = reversed(watch.events[at : at + 2])


def leave_one_out(record: Record) -> None:
    watch = busiest(record)
    watch.bookmarks.clear()
    del watch.events[len(watch.events) // 2]


def send_one_twice(record: Record) -> None:
    watch = busiest(record)
    watch.bookmarks.clear()
    at = len(watch.events) // 2
    watch.events.insert(at, watch.events[at])


def send_the_past_again(record: Record) -> None:
    watch = busiest(record)
    watch.bookmarks.clear()
    watch.events[20:20] = watch.events[5:20]


def begin_too_early(record: Record) -> None:
    watch = busiest(record)
    watch.since = watch.events[0].state.version


def skip_events_after_a_bookmark(record: Record) -> None:
    watch = busiest(record)
    at = len(watch.events) // 2
    watch.bookmarks.append((at, watch.events[at].state.version))


def take_a_bookmark_back(record: Record) -> None:
    watch = busiest(record)
    at = len(watch.events) // 2
    watch.bookmarks.append((at, watch.events[at - 1].state.version - 1))


def make_a_write_up(record: Record) -> None:
    real = event_of(record, done(record, "patch", "apply"))
    made_up = Event(type="MODIFIED", state=replace(real.state, token="made-up"))

    def change(events: list[Event]) -> Iterable[Event]:
        return (made_up if event == real else event for event in events)

    rewrite(record, change)


def do_what_never_left_the_client(record: Record) -> None:
    write = done(record, "patch", "apply")
    at = record.writes.index(write)
    record.writes[at] = replace(write, outcome="unsent", state=None)


def do_what_was_refused(record: Record) -> None:
    write = done(record, "create")
    at = record.writes.index(write)
    record.writes[at] = replace(write, outcome="exists", state=None)


def invent_deletion(record: Record) -> None:
    record.writes.remove(done(record, "delete"))


def do_something_twice(record: Record) -> None:
    """The hub repeats a write whose response was lost."""
    write = done(record, "patch", "apply")
    first = event_of(record, write).state
    following = [e for e in busiest_of(record, first.key).events if e.state.version > first.version]
    again = next(e for e in following if e.state.key == first.key and e.type == "MODIFIED")
    twice = replace(again, state=replace(again.state, token=first.token))
    rewrite(record, lambda events: (twice if event == again else event for event in events))


def busiest_of(record: Record, key: Key) -> Watching:
    return next(w for w in record.watches if w.resource == key[0] and w.namespace is None)


def delete_twice(record: Record) -> None:
    write = done(record, "delete")
    record.writes.append(replace(write, token="again"))


def send_watchers_different_events(record: Record) -> None:
    real = event_of(record, done(record, "patch", "apply"))
    watch = next(w for w in record.watches if real in w.events)
    at = watch.events.index(real)
    watch.events[at] = replace(real, state=replace(real.state, uid="another"))


def send_unselected_object(record: Record) -> None:
    first, second = (w for w in record.watches if w.namespace is None)
    first.events = sorted([*first.events, second.events[0]], key=lambda event: event.state.version)
    first.bookmarks.clear()


def add_existing(record: Record) -> None:
    real = event_of(record, done(record, "patch"))
    lie = replace(real, type="ADDED")
    rewrite(record, lambda events: (lie if event == real else event for event in events))


def change_the_uid(record: Record) -> None:
    real = event_of(record, done(record, "patch"))
    lie = replace(real, state=replace(real.state, uid="another"))
    rewrite(record, lambda events: (lie if event == real else event for event in events))


def show_the_deleted_in_another_state(record: Record) -> None:
    def change(events: list[Event]) -> Iterable[Event]:
        for event in events:
            yield replace(event, state=replace(event.state, token="t0")) if event.type == "DELETED" else event

    rewrite(record, change)


def acknowledge_another_version(record: Record) -> None:
    write = done(record, "patch")
    assert write.state is not None
    at = record.writes.index(write)
    record.writes[at] = replace(write, state=replace(write.state, version=write.state.version - 1))


def give_an_old_version_to_a_late_write(record: Record) -> None:
    write = done(record, "patch")
    at = record.writes.index(write)
    record.writes[at] = replace(write, begun=1e6 + 1, ended=1e6 + 2)


def overwrite_in_spite_of_the_version(record: Record) -> None:
    write = done(record, "update")
    assert write.expected is not None
    at = record.writes.index(write)
    record.writes[at] = replace(write, expected=write.expected - 1)


def create_existing(record: Record) -> None:
    write = done(record, "patch")
    at = record.writes.index(write)
    record.writes[at] = replace(write, verb="create")


def refuse_what_fits(record: Record) -> None:
    """Make the response a conflict although the object had the expected version during the whole request."""
    first = done(record, "apply")
    assert first.state is not None
    moment = 3e6
    sole: Key = ("boats", "a", "sole")
    state = State(key=sole, uid="uid-sole", version=10_000, token="sole")
    rewrite_with(record, Event(type="ADDED", state=state))
    record.writes.append(
        Write(
            verb="create", key=sole, token="sole", begun=moment, ended=moment + 1, outcome="done", state=state
        )
    )
    record.writes.append(
        Write(
            verb="update",
            key=sole,
            token="late",
            begun=moment + 2,
            ended=moment + 3,
            outcome="conflict",
            expected=10_000,
        )
    )


def rewrite_with(record: Record, event: Event) -> None:
    for watch in record.watches:
        if watch.resource == event.state.key[0] and watch.namespace in (None, event.state.key[1]):
            watch.events.append(event)


def say_it_exists_when_it_does_not(record: Record) -> None:
    never: Key = ("boats", "a", "never")
    record.writes.append(
        Write(verb="create", key=never, token="never", begun=3e6, ended=3e6 + 1, outcome="exists")
    )


def deny_existing(record: Record) -> None:
    old: Key = ("boats", "a", "old")
    record.writes.append(
        Write(verb="patch", key=old, token="never", begun=3e6, ended=3e6 + 1, outcome="absent")
    )


def show_the_past(record: Record) -> None:
    at, look = next(
        (at, look) for at, look in enumerate(record.looks) if look.state is not None and look.ended < 5e5
    )
    assert look.state is not None
    following = [e for e in busiest_of(record, look.key).events if e.state.key == look.key]
    assert following[-1].state.version > look.state.version
    record.looks[at] = replace(look, begun=3e6, ended=3e6 + 1)


def show_what_was_never_committed(record: Record) -> None:
    at, look = next((at, look) for at, look in enumerate(record.looks) if look.state is not None)
    assert look.state is not None
    record.looks[at] = replace(
        look, state=replace(look.state, version=look.state.version + 1, token="in-flight")
    )


def show_nothing_where_something_is(record: Record) -> None:
    at, look = next((at, look) for at, look in enumerate(record.looks) if look.state is not None)
    record.looks[at] = replace(look, key=("boats", "a", "old"), state=None, begun=3e6, ended=3e6)


def listed(record: Record) -> tuple[int, Listing]:
    return max(enumerate(record.listings), key=lambda listing: len(listing[1].states))


def leave_something_out_of_a_list(record: Record) -> None:
    at, listing = listed(record)
    record.listings[at] = replace(listing, states=dict(list(listing.states.items())[1:]))


def list_something_old(record: Record) -> None:
    at, listing = listed(record)
    key, state = next(iter(listing.states.items()))
    record.listings[at] = replace(
        listing, states={**listing.states, key: replace(state, version=state.version - 1)}
    )


def list_with_a_version_that_went_back(record: Record) -> None:
    record.listings.append(replace(record.listings[0], begun=3e6, ended=3e6 + 1))


def list_with_unreached_version(record: Record) -> None:
    early = next(listing for listing in record.listings[2:] if listing.ended < 5e5)
    record.listings.append(replace(early, version=9_999, states=record.listings[-2].states))


def forget_where_a_watcher_was(record: Record) -> None:
    busiest(record).expired.append("too old resource version: 120 (400)")


LIES: dict[Callable[[Record], None], str] = {
    lose_an_acknowledged_write: "lost",
    lose_an_acknowledged_deletion: "lost",
    send_versions_in_another_order: "back",
    leave_one_out: "gap",
    send_one_twice: "repeat",
    send_the_past_again: "back",
    begin_too_early: "repeat",
    skip_events_after_a_bookmark: "back",
    take_a_bookmark_back: "back",
    make_a_write_up: "phantom",
    do_what_never_left_the_client: "phantom",
    do_what_was_refused: "phantom",
    invent_deletion: "phantom",
    do_something_twice: "repeat",
    delete_twice: "repeat",
    send_watchers_different_events: "differs",
    send_unselected_object: "phantom",
    add_existing: "broken",
    change_the_uid: "broken",
    show_the_deleted_in_another_state: "broken",
    acknowledge_another_version: "differs",
    give_an_old_version_to_a_late_write: "back",
    overwrite_in_spite_of_the_version: "stale",
    create_existing: "stale",
    refuse_what_fits: "stale",
    say_it_exists_when_it_does_not: "stale",
    deny_existing: "stale",
    show_the_past: "stale",
    show_what_was_never_committed: "phantom",
    show_nothing_where_something_is: "stale",
    leave_something_out_of_a_list: "differs",
    list_something_old: "differs",
    list_with_a_version_that_went_back: "back",
    list_with_unreached_version: "back",
    forget_where_a_watcher_was: "expired",
}


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
@pytest.mark.parametrize("seed", list(SEEDS)[:3])
def test_checker_finds_every_false_answer(lie: Callable[[Record], None], seed: int) -> None:
    record = honest(seed)
    lie(record)
    assert LIES[lie] in {problem.kind for problem in problems(record)}


def test_checker_reports_problems_briefly() -> None:
    many = [Problem("gap", f"no {number}") for number in range(30)]
    assert format_problems(many[:2]) == "gap: no 0\ngap: no 1"
    assert format_problems(many).splitlines()[-1] == "… and 10 more"
