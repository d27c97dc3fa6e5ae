"""Any response of a server and any file content gives a ProviderError or a valid reading."""

import contextlib
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairway.providers.document import DocumentError, parse
from fairway.providers.endpoint import Answer
from fairway.providers.http_scorer.contract import config_of, results_of
from fairway.providers.prometheus.api import Api
from fairway.providers.provider import ProviderError

KEYS = st.sampled_from(
    [
        *(
            "status",
            "data",
            "resultType",
            "result",
            "metric",
            "value",
            "values",
            "error",
            "errorType",
            "warnings",
        ),
        *("results", "score", "source", "params", "query", "range", "step", "scoring", "path", "name"),
    ]
)
WORDS = st.sampled_from(
    ["success", "error", "vector", "matrix", "scalar", "NaN", "+Inf", "1", "1e999", "1_0", "x"]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)
ITEMS = st.lists(
    st.fixed_dictionaries(
        {"metric": st.dictionaries(KEYS, WORDS | st.integers(), max_size=2)},
        optional={
            "value": st.tuples(st.floats(allow_nan=False), WORDS) | JSON,
            "values": st.lists(st.tuples(st.floats(allow_nan=False), WORDS), max_size=3) | JSON,
        },
    ),
    max_size=3,
)
ANSWERS = JSON | st.fixed_dictionaries(
    {"status": WORDS, "data": st.fixed_dictionaries({"resultType": WORDS, "result": ITEMS | JSON})},
    optional={"warnings": st.lists(WORDS, max_size=2)},
)


class FixedEndpoint:
    """An endpoint with a fixed response."""

    server, timeout = "http://prometheus", 5.0

    def __init__(self, value: Any, status: int) -> None:
        self.answer = Answer(status, msgspec.json.decode(msgspec.json.encode(value)))

    async def request(self, *_: Any, **__: Any) -> Answer:
        return self.answer


@given(ANSWERS, st.sampled_from([200, 400, 422, 503]))
async def test_any_prometheus_response_is_handled(value: Any, status: int) -> None:
    endpoint: Any = FixedEndpoint(value, status)
    api = Api(endpoint, params={})
    with contextlib.suppress(ProviderError):
        result = await api.instant("up")
        assert status == 200
        assert all(series.points for series in result.series)
    with contextlib.suppress(ProviderError):
        await api.range("up", start=0, end=1, step=1)


@given(
    JSON | st.fixed_dictionaries({"results": st.lists(st.dictionaries(KEYS, JSON, max_size=3), max_size=3)})
)
def test_any_scorer_response_is_handled(value: Any) -> None:
    with contextlib.suppress(ProviderError):
        assert all(result.problem or abs(result.score) < float("inf") for result in results_of(value))
    with contextlib.suppress(ProviderError):
        config_of(value)


@given(st.binary(max_size=60) | st.text("ab:-[]{}&*!'\"#\n \t,?|>%01.", max_size=60).map(str.encode))
def test_any_file_content_is_handled(data: bytes) -> None:
    with contextlib.suppress(DocumentError):
        parse(data, place="f.yaml")
