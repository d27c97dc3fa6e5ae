from pathlib import Path
from typing import Any

import pytest

from fairway.providers.catalogue import OptionsError
from providers.tools.readings import built

SCORE = {"name": "free", "query": "up", "scale": {"kind": "linear", "low": 0, "high": 9}}


def options(*, score: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"url": "http://prometheus:9090", "scores": [{**SCORE, **(score or {})}], **more}


def test_prometheus_defaults() -> None:
    provider = built("prometheus", options())
    assert (provider.name, provider.resource, provider.interval) == ("prometheus", "prometheus-score", 60)
    named = built("prometheus", options(name="thanos", interval="5m"))
    assert (named.name, named.resource, named.interval) == ("thanos", "thanos-score", 300)


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({}, "", "misses the field 'url'"),
        ({"url": "http://prometheus:9090"}, "", "misses the field 'scores'"),
        (options(url=""), "url", "is not the address of a server"),
        (options(url="prometheus:9090"), "url", "is not the address of a server"),
        (options(url="http://me:secret@host"), "url", "carries a user name or password"),
        (options(scores=[]), "", "declares no score"),
        (options(scores=[SCORE, SCORE]), "scores[1].name", "the score 'free' is declared twice"),
        (options(interval="now"), "interval", "expected a duration such as 30s"),
        (options(interval=0), "interval", "must be at least 1s"),
        (options(resource="Bad_Name"), "resource", "is not a valid resource name"),
        (options(resource="bad..name"), "resource", "is not a valid resource name"),
        (options(name="no name"), "name", "is not a valid provider name"),
        (options(name="n" * 64), "name", "is not a valid provider name"),
        (options(score={"query": " "}), "scores[0].query", "is empty"),
        (options(score={"name": "a b"}), "scores[0].name", "is not a valid score name"),
        (options(score={"name": "a/b"}), "scores[0].name", "is not a valid score name"),
        (options(score={"name": "a" * 101}), "scores[0].name", "is not a valid score name"),
        (options(score={"scale": None}), "scores[0]", "misses the field 'scale'"),
        (options(score={"scale": {"kind": "cubic"}}), "scores[0].scale.kind", "'cubic'"),
        (options(score={"scale": {"kind": "linear"}}), "scores[0].scale", "needs low and high"),
        (options(score={"scale": {"kind": "linear", "low": 5, "high": 5}}), "scores[0].scale", "less than"),
        (options(score={"scale": {"kind": "direct", "low": 5}}), "scores[0].scale", "has no low and high"),
        (options(score={"mode": "range"}), "scores[0]", "needs window and step"),
        (options(score={"window": "5m"}), "scores[0].window", "window is for mode: range"),
        (options(score={"mode": "range", "window": "1m", "step": "1h"}), "scores[0].window", "one step"),
        (options(score={"mode": "range", "window": "52w", "step": "1s"}), "scores[0].window", "10999 steps"),
        (
            options(score={"mode": "range", "window": "1h", "step": "1m", "reduce": "mode"}),
            "scores[0].reduce",
            "or a percentile such as p95",
        ),
        (options(cluster={"label": ""}), "cluster.label", "is empty"),
        (options(cluster={"match": {"claim": "a", "label": "b"}}), "cluster.match", "exclude each other"),
        (
            options(score={"cluster": {"match": {"claim": "a", "annotation": "b"}}}),
            "scores[0].cluster.match",
            "exclude each other",
        ),
        (options(auth={"token": "a", "tokenFile": "b"}), "auth", "exclude each other"),
        (options(auth={"token": "a\nb"}), "auth.token", "no HTTP header can carry"),
        (options(auth={"username": "a"}), "auth", "needs password or passwordFile"),
        (options(url="https://u:secret@p"), "url", "move them to auth"),
        (options(url="https://p/?token=secret"), "url", "without ? and #"),
        (options(url="https://p:99999"), "url", "is not the address of a server"),
        (options(url="https://p:0"), "url", "is not the address of a server"),
        (options(url="http://[::1"), "url", "is not the address of a server"),
        (options(url="http://a b"), "url", "is not the address of a server"),
        (options(url="p:9090"), "url", "is not the address of a server"),
        (options(auth={"certFile": "a"}), "auth", "belong together"),
        (options(tls={"insecure": True, "caFile": "a"}), "tls", "remove one of them"),
        (options(headers={"authorization": "a"}), "headers.authorization", "set by auth"),
        (options(headers={"X": "a\nb"}), "headers.X", "printable ASCII"),
        (options(warnings="ignore"), "warnings", "'ignore'"),
        (options(tiemout="5s"), "tiemout", "did you mean 'timeout'?"),
        (options(timeout=0), "timeout", "must be greater than 0"),
        (options(score={"deadband": -1}), "scores[0].deadband", "must be from 0 to 200 points, not -1"),
        (options(score={"thresholds": [0, 101]}), "scores[0].thresholds[1]", "from -100 to 100, not 101"),
        (options(maxBytes=0), "maxBytes", "must be at least 1"),
        (options(maxAge="0s"), "maxAge", "must be greater than 0"),
        (options(concurrency=0), "concurrency", "must be at least 1"),
        (options(interval="99999999w"), "interval", "expected a duration such as 30s"),
        (
            options(score={"scale": {"kind": "linear", "low": 9, "high": 5}}),
            "scores[0].scale",
            "inverted: true",
        ),
    ],
)
def test_invalid_prometheus_option_is_named(
    tmp_path: Path, given: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(OptionsError) as caught:
        built("prometheus", given, folder=tmp_path)
    assert caught.value.field == field
    assert words in caught.value.message
    assert "secret" not in str(caught.value)
    assert "secret" not in str(caught.value)
