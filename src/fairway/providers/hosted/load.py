"""Request rates of hosted clusters' APIs, from a Prometheus on the hosting cluster."""

from collections.abc import Sequence
from typing import Final

from fairway.providers.endpoint import Endpoint
from fairway.providers.prometheus.api import Api
from fairway.providers.provider import ProviderError

WHOLE: Final = {"partial_response": "false"}
"""For Thanos; Prometheus ignores it."""
INCOMPLETE: Final = "the result is incomplete: {warnings}"
QUERY: Final = 'sum(rate(apiserver_request_total{{namespace=~"{namespaces}"}}[2m]))'


async def rate(endpoint: Endpoint, namespaces: Sequence[str]) -> float:
    """Return the requests per second to all these control planes. Raises ProviderError.

    No series means no requests. An incomplete result is an error, because it would overstate the headroom.
    """
    if not namespaces:
        return 0.0
    # Namespace names contain no characters that are special in a regular expression or a string.
    query = QUERY.format(namespaces="|".join(sorted(namespaces)))
    answer = await Api(endpoint, params=WHOLE).instant(query)
    if answer.warnings:
        raise ProviderError(INCOMPLETE.format(warnings="; ".join(answer.warnings)))
    return answer.series[0].points[-1][1] if answer.series else 0.0
