import hypothesis.strategies as st
from hypothesis import given

from fairway.engine.dependencies import Dependencies, DependencyIndex, Event, event_of
from fairway.engine.points import Reads
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.journal import Change

CPU: Key = ("free", "cpu")
ENV: Key = ("label", "env")
directions = st.sampled_from([Direction.UP, Direction.DOWN, Direction.ANY])
columns = st.dictionaries(st.sampled_from([CPU, ENV, ("taints",)]), directions, max_size=3)
hosts = st.frozensets(st.sampled_from(["n1", "n2"]))
dependencies = st.builds(Dependencies, columns=columns, of_hosts=columns, hosts=hosts, anything=st.booleans())
events = st.builds(
    Event, label=st.just("event"), hosts=hosts, columns=columns, added=st.booleans(), wildcard=st.booleans()
)


def test_reads_of_several_plugins_are_joined_with_their_directions() -> None:
    up = Reads(cells=frozenset({CPU}), helps={CPU: Direction.UP})
    down = Reads(shared=frozenset({CPU, ENV}), helps={CPU: Direction.DOWN})
    assert Dependencies.of([up]).columns == {CPU: Direction.UP}
    assert Dependencies.of([up, down]).columns == {CPU: Direction.ANY, ENV: Direction.ANY}
    assert not Dependencies.of([up, down]).anything
    assert Dependencies.of([up, Reads(anything=True)]).anything


def test_event_of_a_change_has_its_hosts_columns_and_directions() -> None:
    change = Change(rows=(3,), columns={CPU: Direction.UP}, hosts=("n1",), added=True)
    expected = Event(label="n1 added", hosts=frozenset({"n1"}), columns={CPU: Direction.UP}, added=True)
    assert event_of(change, label="n1 added") == expected


def test_column_of_considered_hosts_concerns_only_events_of_these_hosts() -> None:
    depends = Dependencies(of_hosts={CPU: Direction.UP}, hosts={"n1"})
    there = Event(label="n1", hosts=frozenset({"n1"}), columns={CPU: Direction.UP})
    assert depends.concerned_by(there)
    assert not depends.concerned_by(Event(label="n2", hosts=frozenset({"n2"}), columns=there.columns))
    assert not depends.concerned_by(Event(label="n1", hosts=there.hosts, columns={CPU: Direction.DOWN}))


def test_added_host_concerns_every_reader_even_of_columns_in_which_it_has_no_value() -> None:
    added = Event(label="n3 added", hosts=frozenset({"n3"}), columns={CPU: Direction.ANY}, added=True)
    assert Dependencies.of([Reads(cells=frozenset({ENV}))]).concerned_by(added)
    assert not Dependencies.of([Reads()]).concerned_by(added)


@given(owned=st.lists(st.tuples(st.integers(0, 4), st.none() | dependencies)), event=events)
def test_index_finds_exactly_the_owners_that_an_event_concerns(
    owned: list[tuple[int, Dependencies | None]], event: Event
) -> None:
    index: DependencyIndex[int] = DependencyIndex()
    model: dict[int, Dependencies] = {}
    for owner, dependency in owned:
        if dependency is None:
            index.discard(owner)
            model.pop(owner, None)
        else:
            index.put(owner, dependency)
            model[owner] = dependency
    concerned = index.concerned(event)
    assert len(concerned) == len(set(concerned))
    assert set(concerned) == {owner for owner, dependency in model.items() if dependency.concerned_by(event)}
    for owner in model:
        index.discard(owner)
    kept = (index._dependencies, index._readers, index._readers_of_hosts, index._anything)
    assert not any(kept)
