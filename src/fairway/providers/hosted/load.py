"""How busy the APIs of hosted clusters are, if the hosting cluster has a Prometheus that knows."""

from collections.abc import Sequence
from typing import Final

from fairway.providers.endpoint import Endpoint
from fairway.providers.prometheus.api import Api

QUERY: Final = 'sum(rate(apiserver_request_total{{namespace=~"{namespaces}"}}[2m]))'


async def rate(endpoint: Endpoint, namespaces: Sequence[str]) -> float:
    """Requests in a second to all of these control planes together. Raises ProviderError.

    None at all is an answer, too: nobody has asked them anything yet.
    """
    if not namespaces:
        return 0.0
    # Names of namespaces have nothing in them that a regular expression or a quoted text would take for its own.
    answer = await Api(endpoint, params={}).instant(QUERY.format(namespaces="|".join(sorted(namespaces))))
    return answer.series[0].points[-1][1] if answer.series else 0.0
