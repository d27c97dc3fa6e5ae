"""Simulations of hosted clusters: bursts, traces and what they measure."""

from io import StringIO

import pytest

from fairway.whatif.hosting import (
    POLICIES,
    Arrival,
    Result,
    TraceError,
    read_trace,
    simulate,
    synthetic,
    synthetic_hosts,
)
from fairway.whatif.hosting.arrivals import (
    BAD_NUMBER,
    BAD_SIZE,
    EMPTY,
    LONG_LINE,
    LONGEST,
    LONGEST_LINE,
    NO_HEADER,
    NOT_CSV,
    TWICE,
    UNKNOWN_COLUMN,
)

SECOND = 1_000_000


def run(policy: str, arrivals: list[Arrival], *, hosts: int = 5, slots: int = 10) -> Result:
    fleet = synthetic_hosts(count=hosts, slots=slots)
    return simulate(policy, POLICIES[policy](), hosts=fleet, arrivals=arrivals)


def test_burst_within_one_interval_herds_by_published_count_and_not_with_reservations() -> None:
    burst = synthetic(count=40, seconds=1)
    plain, spread = run("placement", burst), run("spread", burst)
    assert (plain.herd, plain.overcommitted, plain.moves) == (1.0, 1, 30)
    assert (spread.herd, spread.overcommitted, spread.moves) == (0.0, 0, 0)
    assert spread.imbalance == pytest.approx(0)


def test_herd_is_measured_in_intervals_with_fewer_arrivals_than_hosts() -> None:
    few, alone = synthetic(count=3, seconds=1), synthetic(count=1, seconds=1)
    assert (run("placement", few).herd, run("spread", few).herd) == (1.0, 0.0)
    assert run("spread", alone).herd is None


def test_published_count_balances_arrivals_that_are_slower_than_the_interval() -> None:
    slow = [Arrival(at=number * 61 * SECOND, name=f"h{number}") for number in range(20)]
    assert run("placement", slow).imbalance == pytest.approx(0)


def test_pack_fills_one_host_before_the_next() -> None:
    result = run("pack", synthetic(count=15, seconds=1))
    assert sorted(result.utilization.values()) == pytest.approx([0, 0, 0, 0.5, 1])


def test_requests_beyond_the_capacity_are_refused() -> None:
    result = run("spread", synthetic(count=60, seconds=1))
    assert (result.placed, result.refused, result.overcommitted) == (50, 10, 0)


def test_room_of_a_deleted_hosted_cluster_is_used_again() -> None:
    lives = [Arrival(at=number * SECOND, name=f"h{number}", lifetime=SECOND // 2) for number in range(5)]
    assert run("spread", lives, hosts=1, slots=1).placed == 5


def test_trace_is_read_from_csv_in_order_of_time() -> None:
    read = read_trace(StringIO("seconds,name,size,lifetime\n5,b,large,60\n1,a,,\n"))
    assert read == [
        Arrival(at=SECOND, name="a"),
        Arrival(at=5 * SECOND, name="b", size="large", lifetime=60 * SECOND),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param([], NO_HEADER, id="empty"),
        pytest.param(["1,a"], NO_HEADER, id="no header"),
        pytest.param(["seconds,colour"], UNKNOWN_COLUMN.format(name="colour"), id="unknown column"),
        pytest.param(["seconds"], EMPTY, id="no arrival"),
        *(
            pytest.param(
                ["seconds", text],
                BAD_NUMBER.format(line=2, column="seconds", text=text, most=LONGEST),
                id=text,
            )
            for text in ("soon", "-1", "nan", "inf", "1e300")
        ),
        pytest.param(
            ["seconds,size", "1,huge"],
            BAD_SIZE.format(line=2, text="huge", known="large, medium, small"),
            id="unknown size",
        ),
        pytest.param(
            ["seconds,name", "1," + "a" * LONGEST_LINE],
            LONG_LINE.format(line=2, most=LONGEST_LINE, columns="seconds, name, size, tenant, lifetime"),
            id="long line",
        ),
        pytest.param(
            ["seconds", '"' + "1" * 100, *["1" * 4000] * 40],
            NOT_CSV.format(line=35, reason="field larger than field limit (131072)"),
            id="open quotation mark",
        ),
        pytest.param(["seconds,name", "1,a", "2,a"], TWICE.format(line=3, text="a"), id="same name"),
    ],
)
def test_bad_trace_is_refused_with_line_and_remedy(lines: list[str], message: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_trace(StringIO("\n".join(lines)))
    assert str(caught.value) == message
