"""Logs that stay readable."""

import logging

import pytest

from kubewire.client.log_throttle import LogThrottle

LOG = logging.getLogger("test.log_throttle")


def test_repeated_topic_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    throttle = LogThrottle(LOG, every=10, clock=lambda: now)
    with caplog.at_level(logging.INFO):
        for now in (0.0, 1.0, 9.9):
            throttle.log(logging.INFO, "hub", "away: %s", now)
        throttle.log(logging.WARNING, "other", "something else")
        now = 10.0
        throttle.log(logging.INFO, "hub", "away: %s", now)
        now = 20.0
        throttle.log(logging.INFO, "hub", "away: %s", now)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "away: 0.0"),
        ("WARNING", "something else"),
        ("INFO", "away: 10.0 (and 2 times more since)"),
        ("INFO", "away: 20.0"),
    ]


def test_log_throttle_topics_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    throttle = LogThrottle(LOG, clock=lambda: 0.0)
    with caplog.at_level(logging.INFO):
        for number in range(2500):
            throttle.log(logging.INFO, number, "x")
        throttle.log(logging.INFO, 0, "again")
    assert caplog.messages[-1] == "again"
