"""From the outcome of a scheduling cycle to the plugins that the queue waits for."""

from dataclasses import dataclass
from typing import Any

from engine.toys import Admit, Refuse, Work, fleet_of
from fairway.engine import cycle
from fairway.engine.points import Context, Filter, PreFilter, Reads, Timeless
from fairway.engine.profile import assemble
from fairway.engine.queue import Rejection, rejections_of
from fairway.engine.status import failed, misconfigured
from fairway.hosts.clusters import cells

ENV = Reads(cells=frozenset({cells.label("env")}))
ANYTHING = Reads(anything=True)


@dataclass
class Declares(Refuse, Timeless):
    """A filter with reads; an exception is raised."""

    result: Any = ENV

    def reads(self, context: Context, /) -> Reads:
        if isinstance(self.result, Exception):
            raise self.result
        reads: Reads = self.result
        return reads


def rejections(
    *filters: Filter, pre: tuple[PreFilter, ...] = (), hosts: tuple[str, ...] = ("a", "b")
) -> tuple[Rejection, ...]:
    profile = assemble(name="toy", pre_filters=pre, filters=filters)
    return rejections_of(cycle.run(fleet_of(*hosts).snapshot(), Work(), profile, now=0))


def test_rejectors_are_the_plugins_that_removed_a_host_with_what_they_read() -> None:
    blamed = rejections(
        Declares(["a"], "First"), Declares(["a"], "Second"), Declares([], "Third"), Refuse(["b"], "Last")
    )
    assert blamed == (
        Rejection(plugin="First", reads=ENV, reasons=("rejects 1 of 2 hosts",)),
        Rejection(plugin="Last", reads=ANYTHING, reasons=("rejects 1 of 1 hosts",)),
    )


def test_plugin_that_fails_to_declare_its_reads_is_woken_by_every_change() -> None:
    for result in (RuntimeError("odd"), None):
        (rejection,) = rejections(Declares(["a", "b"], "Broken", result=result))
        assert rejection.reads == ANYTHING


def test_pre_filter_that_admits_no_host_is_a_rejector() -> None:
    (rejection,) = rejections(pre=(Admit([]),))
    assert (rejection.plugin, rejection.reasons) == ("Admit", ("rejects 2 of 2 hosts",))


def test_misconfigured_workload_waits_for_its_own_change() -> None:
    (rejection,) = rejections(pre=(Admit(None, misconfigured("no such set", plugin="Admit")),))
    assert rejection == Rejection(plugin="Admit", reads=Reads(), reasons=("no such set",))


def test_cycle_that_ends_with_an_error_blames_no_plugin() -> None:
    assert rejections(pre=(Admit(None, failed("broken")),)) == ()


def test_workload_without_any_host_waits_for_one() -> None:
    assert rejections(hosts=()) == (Rejection(plugin="toy", reads=ANYTHING, reasons=("there are no hosts",)),)
