"""Request rates of hosted clusters' APIs, from a Prometheus on the hosting cluster."""

from collections.abc import Sequence
from typing import Final

from fairway.providers.endpoint import Endpoint
from fairway.providers.prometheus.api import Api
from fairway.providers.provider import ProviderError

WHOLE: Final = {"partial_response": "false"}
"""What Thanos understands, and Prometheus ignores."""
INCOMPLETE: Final = "the result is incomplete: {warnings}"
QUERY: Final = 'sum(rate(apiserver_request_total{{namespace=~"{namespaces}"}}[2m]))'


async def rate(endpoint: Endpoint, namespaces: Sequence[str]) -> float:
    """Requests in a second to all of these control planes together. Raises ProviderError.

    None at all is an answer, too: nobody has asked them anything yet. A part of them is none: it would promise room
    that is not there.
    """
    if not namespaces:
        return 0.0
    # Names of namespaces have nothing in them that a regular expression or a quoted text would take for its own.
    query = QUERY.format(namespaces="|".join(sorted(namespaces)))
    answer = await Api(endpoint, params=WHOLE).instant(query)
    if answer.warnings:
        raise ProviderError(INCOMPLETE.format(warnings="; ".join(answer.warnings)))
    return answer.series[0].points[-1][1] if answer.series else 0.0
