import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.providers.http_scorer.contract import (
    BAD_ANSWER,
    BAD_CONFIG,
    Result,
    config_of,
    format_sample,
    request_body,
    results_of,
    split_queries,
)
from fairway.providers.provider import ProviderError


def test_scorer_request_body_follows_contract() -> None:
    body = request_body([({"cluster": "c1", "node": "a"}, [(1772452800.5, 0.25), (1772452860, 7)])])
    assert json.loads(body) == {
        "data": [
            {"metric": {"cluster": "c1", "node": "a"}, "values": [[1772452800.5, "0.25"], [1772452860, "7"]]}
        ]
    }


@pytest.mark.parametrize(
    ("value", "text"), [(math.nan, "NaN"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (1e300, "1e+300")]
)
def test_samples_are_formatted_as_by_prometheus(value: float, text: str) -> None:
    assert format_sample(value) == text


@given(st.floats(allow_nan=False))
def test_formatted_samples_are_lossless(value: float) -> None:
    assert float(format_sample(value)) == value


def test_scorer_response_is_parsed() -> None:
    answer = {"results": [{"metric": {"cluster": "c1"}, "score": 12.5}, {"score": -3, "more": True}]}
    assert results_of(answer) == (Result({"cluster": "c1"}, 12.5), Result({}, -3.0))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([], "its form: expected an object, got a list"),
        ({}, "results: is missing"),
        ({"results": {}}, "results: expected a list, got an object"),
        ({"results": ["x"]}, "results[0]: expected an object, got a string"),
        ({"results": [{"score": 1, "metric": []}]}, "results[0].metric: expected an object, got a list"),
        (
            {"results": [{"score": 1, "metric": {"cluster": 7}}]},
            "results[0].metric.cluster: expected a string, got a number",
        ),
        ({"results": [{}]}, "results[0].score: is missing"),
        ({"results": [{"score": "9"}]}, "results[0].score: expected a number, got '9'"),
        ({"results": [{"score": True}]}, "results[0].score: expected a number, got a boolean"),
        ({"results": [{"score": None}]}, "results[0].score: expected a number, got null"),
        ({"results": [{"score": 10**400}]}, "results[0].score: 1000000000"),
    ],
)
def test_invalid_scorer_response_names_field(answer: Any, words: str) -> None:
    with pytest.raises(ProviderError) as caught:
        results_of(answer)
    assert caught.value.reason == BAD_ANSWER
    assert str(caught.value).startswith(f"response of the scorer: {words}")


def test_invalid_score_does_not_affect_others() -> None:
    none, one = results_of(
        {"results": [{"metric": {"cluster": "c1"}, "score": None}, {"metric": {"cluster": "c2"}, "score": 5}]}
    )
    assert none.labels == {"cluster": "c1"}
    assert math.isnan(none.score)
    assert none.problem == "response of the scorer: results[0].score: expected a number, got null"
    assert one == Result({"cluster": "c2"}, 5.0)


def test_scorer_configuration_is_parsed() -> None:
    config = config_of(
        {
            "name": "cpu",
            "description": "predicted load",
            "source": {
                "type": "Prometheus",
                "host": "http://prometheus.monitoring:9090",
                "path": "/api/v1/query_range",
                "params": {"query": "load", "range": 3600, "step": 60},
            },
            "scoring": {"host": "http://here", "path": "/score", "params": {"name": "cpu", "interval": 30}},
        }
    )
    assert config.source.params.query == "load"
    assert (config.source.params.range, config.source.params.step) == (3600, 60)
    assert (config.scoring.path, config.scoring.params.name) == ("/score", "cpu")


def test_invalid_scorer_configuration_names_field() -> None:
    with pytest.raises(ProviderError) as caught:
        config_of({"source": {"params": {"range": "1h"}}})
    assert caught.value.reason == BAD_CONFIG
    assert "source.params.range: Expected 'float', got 'str'" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("up", ("up",)),
        ("up; down ;", ("up", "down")),
        ('a{x=";"};b', ('a{x=";"}', "b")),
        (r'a{x="\";"};b', (r'a{x="\";"}', "b")),
        ("a{x='it;'};b{y=`\\`}", ("a{x='it;'}", "b{y=`\\`}")),
        (" ; ", ()),
    ],
)
def test_queries_split_at_semicolons_outside_strings(text: str, queries: tuple[str, ...]) -> None:
    assert split_queries(text) == queries
