"""Validate the settings of an add-on before anything is written to a hub.

A setting that the agent rejects would be rolled out to all clusters and stop the agent on each of them. So the agent's
command line is rendered from the same template, parsed by the same command, and its providers are built from it.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import click

from fairway.cli.agent.process import READS_FLEET, Job, check
from fairway.cli.commands.agent import run as agent_run
from fairway.cli.errors import BadInputError
from fairway.providers.addon import IMAGE, VARIABLES, Plan, container
from fairway.providers.catalogue import CATALOGUE
from fairway.providers.loading import NEAR, installed

WRONG_SETTING: Final = "--set {settings}: {reason}"
TOO_OFTEN: Final = f"INTERVAL must be at least 1s; write for example INTERVAL={VARIABLES['INTERVAL']}"
UNKNOWN_PROVIDER: Final = (
    "unknown provider {name!r}{hint}; known: {known}. "
    "If your own image contains it, name the image with --image"
)
SHORTEST_INTERVAL: Final = 1.0

_VARIABLE: Final = re.compile(r"\{\{([A-Z_]+)\}\}")
_ELSEWHERE: Final[Mapping[str, str]] = {
    "HUB_KUBECONFIG": "kubeconfig",
    "CLUSTER_NAME": "cluster1",
    "INSTALL_NAMESPACE": "default",
}
"""Variables that OCM sets on each cluster, with sample values."""


def check_settings(plan: Plan) -> None:
    """Raises click.UsageError that names the settings, their values and what to write."""
    reason = _fault(plan, plan.variables)
    if not reason:
        return
    # Name the smallest set of settings that is rejected for the same reason.
    for count in range(1, len(plan.variables)):
        for names in combinations(plan.variables, count):
            settings = {name: plan.variables[name] for name in names}
            if _fault(plan, settings) == reason:
                raise _refusal(settings, reason)
    raise _refusal(plan.variables, reason)


def _fault(plan: Plan, settings: Mapping[str, str]) -> str:
    """Return why an agent with these settings would not start; empty if it would."""
    try:
        _read(plan, {**VARIABLES, "PROVIDERS": plan.provider, **settings})
    except click.BadParameter as error:
        return error.message
    except BadInputError as error:
        return str(error)
    return ""


def _refusal(settings: Mapping[str, str], reason: str) -> click.UsageError:
    given = " --set ".join(f"{name}={value}" for name, value in settings.items())
    return click.UsageError(WRONG_SETTING.format(settings=given, reason=reason))


def _read(plan: Plan, values: Mapping[str, str]) -> None:
    template = container(plan)
    arguments = [_fill(argument, values) for argument in template["args"]]
    # The agent does not have the environment of this process.
    given = agent_run.make_context("run", arguments, auto_envvar_prefix=None).params
    known = tuple(name for name in given["providers"] if _is_known(plan, name))
    if given["interval"] is not None and given["interval"] < SHORTEST_INTERVAL:
        raise BadInputError(TOO_OFTEN)
    environment = {variable["name"]: _fill(variable["value"], values) for variable in template["env"]}
    if known:
        check(_job(given, providers=known), environment=environment)


def _is_known(plan: Plan, name: str) -> bool:
    """Whether this process has the provider, or only the agent's image does. Raises BadInputError."""
    entry = CATALOGUE.get(name)
    if entry is not None:
        if entry.fleet:
            raise BadInputError(READS_FLEET.format(name=name))
        return True
    if name in installed():
        return True
    if plan.image == IMAGE:
        known = [provider for provider, entry in CATALOGUE.items() if not entry.fleet]
        near = get_close_matches(name, known, n=1)
        hint = NEAR.format(near=near[0]) if near else ""
        raise BadInputError(UNKNOWN_PROVIDER.format(name=name, hint=hint, known=", ".join(known)))
    return False


def _job(given: Mapping[str, Any], *, providers: tuple[str, ...]) -> Job:
    return Job(
        hub_kubeconfig=Path(given["hub_kubeconfig"]),
        cluster=given["cluster_name"],
        kubeconfig=None,
        context=None,
        providers=providers,
        config=None,
        interval=given["interval"],
        valid_for=given["valid_for"],
        adopt=False,
        managed_cluster_scores=given["managed_cluster_scores"],
        add_on=given["addon_name"],
        namespace=given["addon_namespace"],
        lease=True,
        confined_to=None,
        health=None,
        metrics=None,
    )


def _fill(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: {**_ELSEWHERE, **values}.get(match[1], match[0]), text)
