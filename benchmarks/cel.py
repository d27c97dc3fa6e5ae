"""Real time per unit of work of every CEL function, for small and for large arguments: ``python -m benchmarks.cel``.

Limits on expressions are in units of work, so a unit should take the same time in every function. Ratios are to the
plain loop of the same run; a function with a ratio above 1 takes longer than its charge.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import re2

from kubecel import Dialect, Environment
from kubecel.environment import RULE_LIBRARIES
from kubecel.libraries.json import JSON
from kubecel.libraries.scores import SCORES
from kubecel.regex import compile_pattern
from kubecel.types import DYN

UNLIMITED: Final = 1 << 60
SECONDS: Final = 0.02
"""Seconds of processor time per case."""
PLAIN: Final = "plain loop"
COMPILED: Final = "compile "
"""Prefix of the cases that compile regular expressions in every run."""
LARGE: Final = 5000

VARIABLES: Final[dict[str, Any]] = {
    "each": list(range(20)),
    "s": "a" * LARGE,
    "t": "ab," * (LARGE // 3),
    "words": ["word"] * LARGE,
    "mixed": [f"w{at}" for at in range(LARGE)],
    "n": list(range(LARGE)),
    "few": list(range(50)),
    "fewer": [f"w{at}" for at in range(50)],
    "m": {f"k{at}": at for at in range(LARGE)},
    "small": {"a": 1, "b": 2},
    "digits": "9" * LARGE,
    "fraction": "0." + "9" * LARGE,
    "zeros": "0" * LARGE + "1",
    "json": "[" + ",".join(["1"] * (LARGE // 2)) + "]",
    "objects": "[" + ",".join(['{"a":"b"}'] * (LARGE // 10)) + "]",
    "nested_json": "[" * 2000 + "]" * 2000,
    "link": "https://a.b/" + "c" * LARGE,
    "queried": "https://a.b/?" + "d=e&" * (LARGE // 4),
    "encoded": "https://a.b/?" + "%41=%42&" * (LARGE // 8),
    "escaped": "https://a.b/" + "%41" * (LARGE // 3),
    "odd_path": "https://a.b/" + "\u00e9" * LARGE,
    "noise": "".join(random.Random(7).choices("ab", k=LARGE)),
    "needle": "a" * 40 + "b" + "a" * 40,
    "parts": "1ns" * (LARGE // 3),
    "dotted": "a." * (LARGE // 2) + "a",
    "version": "1.2.3-" + ".".join(["1"] * (LARGE // 2)),
    "pattern": "(ab|cd)*[a-f]{1,20}x",
    "managedCluster": {"metadata": {"name": "c"}},
}

CASES: Final = {
    PLAIN: "each.all(b, a + b >= 0)",
    "exists_one": "!n.exists_one(b, false)",
    "filter": "n.filter(b, false).size() == 0",
    "map": "n.map(b, b).size() > 0",
    "map over keys": "m.exists(k, true)",
    "transformList": "n.transformList(i, v, v).size() > 0",
    "transformMap": "m.transformMap(k, v, v).size() > 0",
    "list literal": "[a, a, a, a, a, a, a, a].size() > 0",
    "map literal": "{'a': a, 'b': a, 'c': a}.size() > 0",
    "select": "managedCluster.metadata.name != ''",
    "index": "n[a] >= 0 && m['k7'] == 7",
    "optional select": "managedCluster.?metadata.?name.hasValue()",
    "failure": "managedCluster.nothing == '' || true",
    "conditional": "(a > 0 ? a : 1) >= 0",
    "==": "a == a",
    "== text": "s == t",
    "== list": "n == n",
    "== map": "m == m",
    "in list": "!(-1 in n)",
    "in words": "!('x' in words)",
    "in map": "'k1' in m",
    "+ text": "(s + s).size() > 0",
    "+ list": "(n + n).size() > 0",
    "< text": "!(s < s)",
    "type": "type(a) == int",
    "matches": "!s.matches('b')",
    "matches small": "'abc'.matches('^[a-z]+$')",
    "compile pattern": "!'x'.matches(pattern + string(a))",
    "compile classes": "!'x'.matches('[^a]{1,50}\\\\pL' + string(a))",
    "matches states": "noise.matches('(a|b)*a(a|b){80}$') || true",
    "matches large": "!s.matches('(a?){100}b')",
    "compile nested": "!'x'.matches('((a{1,10}){1,10}b?){1,10}' + string(a))",
    "compile words": "!'x'.matches('(?i)(alpha|beta|gamma){1,20}\\\\w+' + string(a))",
    "findAll ahead": "s.substring(0, 500).findAll('a(.*b)?').size() > 0",
    "find": "s.find('b') == ''",
    "findAll": "s.findAll('a').size() > 0",
    "findAll words": "t.substring(0, 300).findAll('[a-z]+').size() > 0",
    "split": "t.split(',').size() > 0",
    "split all": "t.split('').size() > 0",
    "split small": "'a,b'.split(',').size() > 0",
    "replace": "t.replace('a', 'bb').size() > 0",
    "replace empty": "t.replace('', 'bb').size() > 0",
    "join": "words.join('-').size() > 0",
    "reverse": "t.reverse().size() > 0",
    "reverse list": "n.reverse().size() > 0",
    "quote": "strings.quote(t).size() > 0",
    "lowerAscii": "t.lowerAscii().size() > 0",
    "upperAscii small": "'ab'.upperAscii() == 'AB'",
    "trim": "t.trim().size() > 0",
    "substring": "t.substring(1).size() > 0",
    "charAt": "t.charAt(2) != ''",
    "lastIndexOf": "s.lastIndexOf('b') == -1",
    "indexOf": "s.indexOf('ab') == -1",
    "lastIndexOf needle": "s.lastIndexOf(needle) == -1",
    "contains needle": "!s.contains(needle)",
    "replace needle": "s.replace(needle, '').size() > 0",
    "contains": "!s.contains('b')",
    "startsWith": "s.startsWith('a')",
    "format": "'%s %d %.5f %x %b %e'.format(['x', 5, 1.5, 255, 5, 1.0]).size() > 0",
    "format precise": "'%.100f'.format([1.5e300]).size() > 0",
    "format list": "'%s'.format([n]).size() > 0",
    "format map": "'%s'.format([m]).size() > 0",
    "format text": "'%s'.format([t]).size() > 0",
    "format hex": "'%x'.format([t]).size() > 0",
    "sort": "n.sort().size() > 0",
    "sort words": "mixed.sort().size() > 0",
    "distinct": "few.distinct().size() > 0",
    "distinct words": "mixed.distinct().size() > 0",
    "indexOf list": "n.indexOf(-1) == -1",
    "lastIndexOf list": "n.lastIndexOf(-1) == -1",
    "isSorted": "n.isSorted()",
    "sum": "n.sum() > 0",
    "max": "n.max() > 0",
    "min": "mixed.min() != ''",
    "flatten": "[n, n].flatten().size() > 0",
    "slice": "n.slice(0, 4999).size() > 0",
    "range": "lists.range(5000).size() > 0",
    "sets.contains": "sets.contains(few, few)",
    "sets.equivalent": "sets.equivalent(fewer, fewer)",
    "sets.intersects": "!sets.intersects(few, fewer)",
    "isURL": "isURL(link)",
    "url": "url(link).getHost() != ''",
    "url small": "url('https://a.b/c').getHost() != ''",
    "url escaped": "url(escaped).getEscapedPath() != ''",
    "url odd": "url(odd_path).getEscapedPath() != ''",
    "getQuery": "url(queried).getQuery().size() > 0",
    "getQuery encoded": "url(encoded).getQuery().size() > 0",
    "isIP": "!isIP(s)",
    "ip": "ip('2001:db8::1').family() == 6",
    "ip long": "!isIP('1:' + s)",
    "ip.isCanonical": "ip.isCanonical('10.1.1.1')",
    "ip tests": "ip('10.1.1.1').isGlobalUnicast()",
    "cidr": "cidr('10.0.0.0/8').containsIP('10.1.1.1')",
    "cidr cidr": "cidr('10.0.0.0/8').containsCIDR('10.0.0.0/16')",
    "cidr masked": "cidr('10.1.0.0/8').masked().prefixLength() == 8",
    "quantity": "quantity('10Mi').isGreaterThan(quantity('5M'))",
    "quantity large": "quantity('1e18').isGreaterThan(quantity('1e-5'))",
    "quantity add": "quantity('10Mi').add(quantity('1')).isInteger()",
    "quantity float": "quantity('10Mi').asApproximateFloat() > 1.0",
    "isQuantity long": "isQuantity(digits) || true",
    "semver": "semver('1.2.3-alpha.1').isLessThan(semver('1.2.3'))",
    "semver long": "isSemver(version)",
    "semver compare": "[semver(version)].all(v, each.all(i, v == v))",
    "getDayOfYear": "timestamp('2026-01-01T00:00:00Z').getDayOfYear('America/New_York') >= 0",
    "getHours": "timestamp('2026-01-01T00:00:00Z').getHours('+01:00') >= 0",
    "getMonth": "timestamp('2026-01-01T00:00:00Z').getMonth() >= 0",
    "unknown zone": "timestamp(1).getHours('No/Where' + string(a)) >= 0 || true",
    "duration": "duration('1h1m1s') > duration('1s')",
    "duration long": "duration(parts) > duration('0s')",
    "string": "string(a) != ''",
    "string double": "string(1.5e-7) != ''",
    "string timestamp": "string(timestamp(a)) != ''",
    "int": "int('12') == 12",
    "int long": "int(zeros) == 1",
    "double": "double('1.5') > 1.0",
    "double long": "double(fraction) > 0.0",
    "bytes": "bytes(s).size() > 0",
    "bytes to string": "string(bytes(s)).size() > 0",
    "parseJSON": "json.parseJSON().size() > 0",
    "parseJSON objects": "objects.parseJSON().size() > 0",
    "parseJSON nested": "nested_json.parseJSON().size() > 0",
    "parseJSON small": "'{\"a\": 1}'.parseJSON().a == 1.0",
    "scores": "managedCluster.scores('x').size() >= 0",
    "validate subdomain": "!format.dns1123Subdomain().validate(dotted).hasValue() || true",
    "validate label": "!format.dns1123Label().validate('abc').hasValue()",
    "validate uri": "!format.uri().validate(link).hasValue()",
    "validate qualified": "!format.qualifiedName().validate(s).hasValue() || true",
    "validate byte": "!format.byte().validate(s).hasValue() || true",
    "validate datetime": "!format.datetime().validate(t).hasValue() || true",
    "optional": "optional.of(a).hasValue()",
    "optional equality": "optional.of(n) == optional.of(n)",
    "unwrap": "optional.unwrap(n.map(v, optional.of(v))).size() > 0",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    microseconds: float
    """Seconds of processor time per unit of work."""
    work: int
    cost: int
    error: str


class _Scores:
    def scores(self, _cluster: str, _name: str, /) -> list[tuple[str, int]]:
        return [(f"score{at}", at) for at in range(20)]


def environment() -> Environment:
    """Return an environment with all libraries."""
    return Environment(
        variables=dict.fromkeys(VARIABLES, DYN),
        libraries=(*RULE_LIBRARIES, SCORES, JSON),
        dialect=Dialect(mixed_numbers=True, two_variables=True),
    )


def measure(
    environment: Environment, name: str, text: str, *, clock: Callable[[], float] = time.process_time
) -> Figure:
    program = environment.compile(f"each.all(a, {text})")
    source = _Scores()

    def run() -> Any:
        return program.evaluate(VARIABLES, context=source, cost_limit=None, work_limit=UNLIMITED)

    outcome = run()
    best = float("inf")
    ends = clock() + SECONDS
    while True:
        if name.startswith(COMPILED):
            compile_pattern.cache_clear()
            re2.purge()
        began = clock()
        run()
        best = min(best, clock() - began)
        if clock() >= ends:
            break
    return Figure(name, best / outcome.work * 1e6, outcome.work, outcome.cost, str(outcome.error or ""))


def figures(names: list[str]) -> Iterator[Figure]:
    made = environment()
    for name, text in CASES.items():
        if not names or name in names or name == PLAIN:
            yield measure(made, name, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="Cases to measure; all if none is named.")
    measured = list(figures(parser.parse_args().names))
    plain = measured[0].microseconds
    print(f"{'case':22} {'ns/unit':>8} {'ratio':>6} {'work':>9} {'cost':>9}")
    for figure in sorted(measured, key=lambda figure: figure.microseconds):
        ratio = figure.microseconds / plain
        print(
            f"{figure.name:22} {figure.microseconds * 1000:8.0f} {ratio:6.2f}"
            f" {figure.work:9,} {figure.cost:9,} {figure.error}"
        )


if __name__ == "__main__":
    main()
