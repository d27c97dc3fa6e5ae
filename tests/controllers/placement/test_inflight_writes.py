"""What is heard of an object while it is written: our own write, or somebody else's."""

from fairway.controllers.placement.inflight_writes import InflightWrites

OWNER = ("ns", "p")


def test_what_is_heard_while_nothing_is_written_is_no_echo() -> None:
    echoes = InflightWrites()
    assert not echoes.heard(OWNER, "5")

    echoes.begin(("ns", "other"))
    assert not echoes.heard(OWNER, "5")

    echoes.begin(OWNER)
    echoes.end(OWNER)
    assert not echoes.heard(OWNER, "5")


def test_the_echo_of_our_own_write_is_nobody_meddling_whichever_comes_first() -> None:
    echoes = InflightWrites()
    echoes.begin(OWNER)
    assert echoes.heard(OWNER, "5")
    echoes.answered(OWNER, "5")
    echoes.answered(OWNER, "6")
    assert echoes.heard(OWNER, "6")

    assert not echoes.end(OWNER).externally_modified


def test_a_version_that_none_of_our_writes_led_to_is_somebody_meddling() -> None:
    echoes = InflightWrites()
    echoes.begin(OWNER)
    echoes.heard(OWNER, "5")
    echoes.answered(OWNER, "6")

    assert echoes.end(OWNER).externally_modified


def test_pages_that_were_heard_of_are_looked_at_again_in_the_end() -> None:
    echoes = InflightWrites()
    echoes.begin(OWNER).pages.add("ours")
    echoes.heard(OWNER, "5", pages={"theirs"})

    assert echoes.end(OWNER).pages == {"ours", "theirs"}
