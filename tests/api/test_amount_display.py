"""Amounts of resources in tables and sentences."""

import pytest

from fairway.api.amount_display import (
    display_amount,
    display_change,
    display_milli,
    display_share,
    display_shortage,
)


@pytest.mark.parametrize(
    ("resource", "quantity", "shown"),
    [
        ("memory", "5900907936Ki", "5.5 TiB"),
        ("memory", "49265496Ki", "47 GiB"),
        ("memory", "708678346Ki", "676 GiB"),
        ("memory", "384Gi", "384 GiB"),
        ("memory", "1073741823", "1 GiB"),
        ("memory", "1000M", "954 MiB"),
        ("memory", 512, "512 B"),
        ("memory", "-1Ki", "-1 KiB"),
        ("memory", "-0.001", "0 B"),
        ("memory", "1123093620Ki", "1.05 TiB"),
        ("memory", "1047552Ki", "1023 MiB"),
        ("memory", 900, "900 B"),
        ("memory", "1180473561555339575296", "1024 EiB"),
        ("ephemeral-storage", "1536Mi", "1.5 GiB"),
        ("hugepages-2Mi", "4Mi", "4 MiB"),
        ("cpu", "93500m", "93.5"),
        ("cpu", "24", "24"),
        ("cpu", "100", "100"),
        ("cpu", 0.25, "0.25"),
        ("cpu", "1e99999", "1e99999"),
        ("memory", "1.99999999999999999999e99999", "1999999999999999999990e99978"),
        ("memory", "0e2147483647", "0"),
        ("pods", "110", "110"),
        ("nvidia.com/gpu", "2k", "2k"),
        ("memory", "plenty", "plenty"),
        ("memory", "", ""),
    ],
)
def test_amounts_are_shown_in_units_people_use(resource: str, quantity: str | float, shown: str) -> None:
    assert display_amount(resource, quantity) == shown


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (-0.0, "0 %"),
        (-1e-9, "0 %"),
        (0.001, "<1 %"),
        (0.654, "65 %"),
        (0.996, ">99 %"),
        (1.0, "100 %"),
        (71.76, "7,176 %"),
        (-0.25, "-25 %"),
    ],
)
def test_share_is_0_or_100_per_cent_only_if_it_is_exactly_that(share: float, text: str) -> None:
    assert display_share(share) == text


def test_shortage_never_looks_like_enough() -> None:
    gib = 1000 << 30
    assert display_shortage("memory", 16 * gib, 17 * gib) == ("16 GiB", "17 GiB")
    assert display_shortage("memory", 17 * gib - 1000, 17 * gib) == ("18253611007", "18253611008")
    assert display_shortage("cpu", 4215, 4216) == ("4.215", "4.216")
    assert (display_milli("slots", 4000), display_milli("hostedclusters", 12_345_000)) == ("4", "12345")


def test_change_that_rounding_would_hide_is_shown_in_full() -> None:
    assert display_change("memory", "49265496Ki", "60Gi") == ("47 GiB", "60 GiB")
    assert display_change("memory", "5900907936Ki", "5900907937Ki") == ("5900907936Ki", "5900907937Ki")
