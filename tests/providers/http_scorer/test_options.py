from typing import Any

import pytest

from fairway.providers.catalogue import OptionsError
from fairway.providers.scales import Direct
from providers.tools.readings import built


def options(**more: Any) -> dict[str, Any]:
    return {"url": "http://scorer:8000", "score": {"name": "mine"}, **more}


def test_scorer_default_scale_is_direct() -> None:
    provider = built("http-scorer", options())
    assert provider.scores[0].scale == Direct()
    assert (provider.name, provider.resource) == ("http-scorer", "http-scorer-score")


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"url": "http://scorer"}, "", "misses the field 'score'"),
        (options(path="scoring"), "path", "must start with /"),
        (options(configPath="config"), "configPath", "must start with /"),
        (options(healthPath="healthz"), "healthPath", "must start with /"),
        (options(path="/{cluster}"), "path", "write mode: cluster"),
        (options(mode="node"), "mode", "'node'"),
        (options(reduce="sum"), "reduce", "must be last"),
        (options(breaker={"failures": 0}), "breaker.failures", "at least 1"),
        (options(concurrency=0), "concurrency", "at least 1"),
        (options(source={"url": "http://p"}), "source.query", "or use that of the scorer with sync: full"),
        (options(source={"url": "http://p", "query": "a", "range": "5m"}), "source", "range needs step"),
        (options(source={"url": "p", "query": "a"}), "source.url", "is not the address of a server"),
        (options(lastGood="forget"), "lastGood", "'forget'"),
        (options(timeout=0), "timeout", "must be greater than 0"),
        (options(source={"url": "http://p", "query": "a", "timeout": 0}), "source.timeout", "greater than 0"),
    ],
)
def test_invalid_scorer_option_is_named(given: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(OptionsError) as caught:
        built("http-scorer", given)
    assert caught.value.field == field
    assert words in caught.value.message
