"""Write the generated parts of docs/reference from the code: flags, lint rules, metrics, scores and conditions.

A generated part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``. `make reference` writes all of them,
and a test compares them with the code.
"""

import asyncio
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from typing import Final

import click
import conditions as definitions

from fairway.cli.main import fairway
from fairway.controllers.hosting.metrics import HOSTING_DEFINITIONS
from fairway.controllers.machines.permit_metrics import MACHINE_DEFINITIONS
from fairway.controllers.pods.metrics import POD_DEFINITIONS
from fairway.controllers.recovery.metrics import RECOVERY_DEFINITIONS
from fairway.controllers.scores.metrics import SCORE_DEFINITIONS
from fairway.lint.linter import FAMILIES
from fairway.observe.meters import DEFINITIONS, Definition
from fairway.observe.provider_meters import PROVIDER_DEFINITIONS
from fairway.providers.catalogue import CATALOGUE, Context
from fairway.providers.provider import Provider, Scale
from fairway.providers.scales import Direct, Inverted, Linear, Logarithmic, Share
from kubewire.client import Client, Connection

REFERENCE: Final = Path(__file__).parent.parent / "docs" / "reference"
PART: Final = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(headings)
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(text: str) -> str:
    return f"`{text}`" if text else ""


# Flags


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command, click.Context]]:
    context = click.Context(command, info_name=path, auto_envvar_prefix=_prefix(command))
    yield path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from commands(inner, f"{path} {name}")


def _prefix(command: click.Command) -> str | None:
    prefix = command.context_settings.get("auto_envvar_prefix")
    return prefix if isinstance(prefix, str) else None


def flags() -> str:
    parts = []
    for path, command, context in commands(fairway, "fairway"):
        options = [
            option for option in command.params if isinstance(option, click.Option) and not option.hidden
        ]
        text = cleandoc(command.help or "").replace("\b\n", "").replace("\f", "")
        usage = " ".join([path, *command.collect_usage_pieces(context)])
        rows = ([code(_spelling(option, context)), _meaning(option, context)] for option in options)
        parts.append(
            f"## {path}\n\n```text\n{usage}\n```\n\n{text}\n"
            + (f"\n{table(['option', 'meaning'], rows)}" if options else "")
        )
    return "\n".join(parts)


def _spelling(option: click.Option, context: click.Context) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    takes_value = not (option.is_flag or option.count)
    return f"{names} {option.make_metavar(context)}" if takes_value else names


def _meaning(option: click.Option, context: click.Context) -> str:
    facts: list[str] = []
    if option.envvar:
        names = [option.envvar] if isinstance(option.envvar, str) else option.envvar
        facts += map(code, names)
    elif context.auto_envvar_prefix and option.name and option.allow_from_autoenv:
        facts.append(code(f"{context.auto_envvar_prefix}_{option.name.upper()}"))
    extra = option.get_help_extra(context)
    if option.show_default and "default" in extra:
        facts.append(f"default {code(extra['default'])}")
    if extra.get("required"):
        facts.append("required")
    words = " ".join((option.help or "").split())
    return f"{words} ({'; '.join(facts)})" if facts else words


# Lint rules


def lint_rules() -> str:
    parts = []
    for title, rules in FAMILIES.items():
        rows = ([code(rule.id), rule.severity.value, rule.summary] for rule in rules)
        parts.append(f"## {title}\n\n{table(['rule', 'severity', 'finding'], rows)}")
    return "\n".join(parts)


# Metrics


def _metrics(definitions: Iterable[Definition]) -> str:
    rows = (
        [code(metric.name), metric.type, ", ".join(map(code, metric.labels)), metric.meaning]
        for metric in definitions
    )
    return table(["metric", "type", "labels", "meaning"], rows)


def metrics() -> str:
    return _metrics((*DEFINITIONS, *SCORE_DEFINITIONS, *RECOVERY_DEFINITIONS))


def hosting_metrics() -> str:
    return _metrics(HOSTING_DEFINITIONS)


def machine_metrics() -> str:
    return _metrics(MACHINE_DEFINITIONS)


def pod_metrics() -> str:
    return _metrics(POD_DEFINITIONS)


def provider_metrics() -> str:
    return _metrics(PROVIDER_DEFINITIONS)


# Scores


def providers() -> str:
    rows = (
        [code(name), "hub" if entry.fleet else "cluster", entry.meaning] for name, entry in CATALOGUE.items()
    )
    return table(["provider", "runs on", "scores"], rows)


def scores() -> str:
    return "\n".join(
        f"The provider {code(name)} publishes {code(provider.resource)}:\n\n"
        + table(
            ["score", "unit", "formula", "raw value"],
            (
                [code(score.name), score.unit, formula(score.scale), score.meaning]
                for score in provider.scores
            ),
        )
        for name, provider in asyncio.run(_cluster_providers()).items()
    )


async def _cluster_providers() -> Mapping[str, Provider]:
    client = Client(Connection(server="https://localhost"))
    built = {}
    for name, entry in CATALOGUE.items():
        if not entry.fleet:
            context = Context(name=name, cluster="cluster1", hub=client, local=client, environment={})
            built[name] = entry.factory()({}, context)
    return built


def formula(scale: Scale) -> str:
    match scale:
        case Linear(low, high):
            return f"linear({low:g}, {high:g})"
        case Logarithmic(low, high):
            return f"log({low:g}, {high:g})"
        case Inverted(inner):
            return f"inverted {formula(inner)}"
        case Direct():
            return "x"
        case Share(most):
            return f"share({most:g})"
    raise TypeError(f"no formula for {scale!r}")


# Conditions


def conditions() -> str:
    """Return one table for each kind: a column of kinds would leave too little room for the meaning."""
    rows: dict[str, list[list[str]]] = {}
    for (kind, condition), reasons in definitions.conditions().items():
        rows.setdefault(kind, []).extend(
            [code(condition), code(reason), meaning] for reason, meaning in reasons.items()
        )
    return "\n".join(
        f"## {kind}\n\n{table(['condition', 'reason', 'meaning'], of_kind)}" for kind, of_kind in rows.items()
    )


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "conditions": conditions,
    "flags": flags,
    "lint-rules": lint_rules,
    "metrics": metrics,
    "hosting-metrics": hosting_metrics,
    "machine-metrics": machine_metrics,
    "pod-metrics": pod_metrics,
    "provider-metrics": provider_metrics,
    "providers": providers,
    "scores": scores,
}


def render(text: str) -> str:
    """Return the page with its generated parts renewed."""
    return PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n{part[3]}", text)


def main() -> int:
    for page in sorted(REFERENCE.glob("*.md")):
        old = page.read_text(encoding="utf-8")
        new = render(old)
        if new != old:
            page.write_text(new, encoding="utf-8")
            print(f"wrote {page.relative_to(REFERENCE.parent.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
