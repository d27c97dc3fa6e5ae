"""One example per function; recorded results cover the edge cases."""

from __future__ import annotations

import pytest

from kubecel import CompileError, cluster_environment

TRUE = {
    "standard": [
        "-7 / 2 == -3 && -7 % 3 == -1",
        "1.0 / 0.0 > 1e300",
        "'é'.size() == 1 && b'é'.size() == 2",
        "[1] + [2] == [1, 2]",
        "dyn(1) in [1.0]",
        "'b' in {'b': 1} && !('c' in {'b': 1})",
        "int('-12') == -12 && uint('3') == 3u && double('1e3') == 1000.0",
        "string(1e6) == '1e+06' && string(0.5) == '0.5' && string(true) == 'true'",
        "bool('T') && !bool('0')",
        "type(1u) == uint && type(type(1)) == type",
        "'héllo'.contains('él') && 'ab'.startsWith('a') && 'ab'.endsWith('b')",
        "'v1.31.2'.matches('^v1\\\\.3[0-9]')",
    ],
    "time": [
        "timestamp('2026-01-02T03:04:05.006Z').getMilliseconds() == 6",
        "timestamp('2026-01-02T03:04:05Z').getHours('America/New_York') == 22",
        "timestamp('2026-01-02T03:04:05Z').getMinutes('+05:30') == 34",
        "timestamp('2026-01-02T03:04:05Z').getDayOfWeek() == 5",
        "timestamp('2024-12-31T00:00:00Z').getDayOfYear() == 365",
        "timestamp('2026-01-01T00:00:00Z') + duration('36h') == timestamp('2026-01-02T12:00:00Z')",
        "string(timestamp('2026-01-01T00:00:00+02:00')) == '2026-01-01T00:00:00+02:00'",
        "string(duration('1h30m0.5s')) == '5400.5s' && duration('90m').getHours() == 1",
        "int(timestamp('1970-01-01T00:01:00Z')) == 60",
    ],
    "strings": [
        "'abc'.charAt(1) == 'b' && 'abc'.charAt(3) == ''",
        "'abcabc'.indexOf('c', 3) == 5 && 'abcabc'.lastIndexOf('c', 4) == 2",
        "'Ab'.lowerAscii() == 'ab' && 'É'.lowerAscii() == 'É'",
        "'a-b-c'.replace('-', '+', 1) == 'a+b-c'",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
        "'abcd'.substring(1, 3) == 'bc' && ' x '.trim() == 'x' && 'abc'.reverse() == 'cba'",
        "['a', 'b'].join('-') == 'a-b'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "'%s %d %.2f %x %e'.format(['a', 1, 2.5, 255, 1.5]) == 'a 1 2.50 ff 1.500000e+00'",
        "'%s'.format([{'b': [1, null], 'a': 1.5}]) == '{a: 1.5, b: [1, null]}'",
    ],
    "lists": [
        "[1, 2, 3].sum() == 6 && [1.5, 2.5].sum() == 4.0 && [].sum() == 0",
        "[3, 1, 2].max() == 3 && ['b', 'a'].min() == 'a'",
        "[1, 2, 2].isSorted() && ![2, 1].isSorted()",
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(5) == -1",
    ],
    "regex": [
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('x') == ''",
        "'1 22 333'.findAll('[0-9]+') == ['1', '22', '333']",
        "'1 22 333'.findAll('[0-9]+', 2) == ['1', '22'] && 'ab'.findAll('x*').size() == 3",
    ],
    "urls": [
        "isURL('https://h:80/p') && !isURL('h') && !isURL('http://h:x')",
        "url('https://u:p@[::1]:80/a%20b?x=1&x=2#f').getHost() == '[::1]:80'",
        "url('https://h:80/a').getHostname() == 'h' && url('https://h:80/a').getPort() == '80'",
        "url('https://h/a%20b').getEscapedPath() == '/a%20b' && url('https://h/a').getScheme() == 'https'",
        "url('https://h/?x=1&x=%20').getQuery() == {'x': ['1', ' ']}",
        "url('http://h/a b') == url('http://h/a%20b')",
    ],
    "quantity": [
        "isQuantity('1.5Gi') && !isQuantity('1e3Ki') && !isQuantity(' 1')",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1').isLessThan(quantity('1001m'))",
        "quantity('50k').add(quantity('20k')) == quantity('70k')",
        "quantity('50k').sub(1).compareTo(quantity('49999')) == 0",
        "quantity('5').asInteger() == 5 && !quantity('1500m').isInteger() && sign(quantity('-1')) == -1",
        "quantity('1500m').asApproximateFloat() == 1.5",
        "quantity('1e99999').isGreaterThan(quantity('1e-5')) && !quantity('1e99999').isInteger()",
        "quantity('1e99999').sub(quantity('1')).isLessThan(quantity('1e99999'))",
        "quantity('1e2147483647').add(1).isGreaterThan(quantity('1e2147483647'))",
        "quantity('1').compareTo(quantity('1.99999999999999999999e2147483647')) == -1",
    ],
    "network": [
        "isIP('::1') && !isIP('::ffff:1.2.3.4') && !isIP('1.2.3.04') && !isIP('fe80::1%eth0')",
        "ip('10.0.0.1').family() == 4 && string(ip('FE80::0:1')) == 'fe80::1' && !ip.isCanonical('FE80::1')",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('169.254.1.1').isLinkLocalUnicast()",
        "ip('127.0.0.1').isLoopback() && ip('::').isUnspecified() && ip('10.0.0.1').isGlobalUnicast()",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('::1'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/16').masked() == cidr('10.1.0.0/16')",
        "cidr('10.1.2.3/16').ip() == ip('10.1.2.3') && cidr('10.1.2.3/16').prefixLength() == 16",
    ],
    "format": [
        "!format.dns1123Label().validate('a-b').hasValue()",
        "format.dns1123Label().validate('a.b').value() == ['must not contain dots']",
        "!format.dns1123LabelPrefix().validate('a-').hasValue()",
        "!format.qualifiedName().validate('example.com/Name').hasValue()",
        "format.named('labelValue').value().validate('-').hasValue() && !format.named('x').hasValue()",
        "!format.uuid().validate('550e8400-e29b-41d4-a716-446655440000').hasValue()",
        "format.byte().validate('YQ').hasValue() && !format.byte().validate('YQ==').hasValue()",
        "format.date().validate('2026-02-30').hasValue()",
        "!format.datetime().validate('2026-01-01T00:00:00Z').hasValue()",
        "format.uri().validate('a b').hasValue()",
    ],
    "semver": [
        "isSemver('1.2.3-alpha.1+build') && !isSemver('v1.2.3') && !isSemver('1.2')",
        "semver('1.10.0').isGreaterThan(semver('1.9.0')) && semver('1.0.0-2').isLessThan(semver('1.0.0-10'))",
        "semver('1.0.0-1').isLessThan(semver('1.0.0-a')) && semver('1.0.0') == semver('1.0.0+x')",
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
    ],
    "json": [
        '\'{"a": [1, {"b": null}]}\'.parseJSON().a[1].b == null',
        "type('1'.parseJSON()) == double && '[]'.parseJSON().size() == 0",
        '\'{"a": 1, "a": 2}\'.parseJSON().a == 2.0',
    ],
    "optional": [
        "optional.of(1).hasValue() && !optional.none().hasValue() && !optional.ofNonZeroValue('').hasValue()",
        "optional.none().or(optional.of(2)).value() == 2 && optional.none().orValue(3) == 3",
        "{'a': {'b': 1}}.?a.b == optional.of(1) && !{'a': {'b': 1}}.?c.b.hasValue()",
        "[1, ?optional.none(), 3] == [1, 3] && {?'a': optional.none()} == {}",
        "optional.of(2).optMap(x, x * 2).value() == 4 && !optional.of(2).optFlatMap(x, optional.none()).hasValue()",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2",
        "[optional.of(1), optional.none()].unwrapOpt() == [1]",
    ],
}

FAILS = {
    "standard": [
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("0u - 1u", "unsigned"),
    ],
    "time": [("timestamp('x')", "type conversion"), ("timestamp(0).getHours('Mars')", "unknown time zone")],
    "strings": [("'a'.charAt(2)", "index out of range"), ("'a'.substring(1, 0)", "invalid substring range")],
    "lists": [("dyn([]).max()", "max called on empty list")],
    "urls": [("url('h')", "URL parse error")],
    "quantity": [("quantity('x')", "quantity"), ("quantity('1.5').asInteger()", "cannot convert")],
    "network": [("ip('x')", "IP Address"), ("cidr('1.2.3.4')", "network address")],
    "semver": [("semver('1.2')", "No Major.Minor.Patch"), ("semver('v1.2.3')", "major number")],
    "json": [("'{'.parseJSON()", "failed to parse json"), ("'1e999'.parseJSON()", "cannot unmarshal")],
    "optional": [("optional.none().value()", "dereference")],
    "scores": [("managedCluster.scores('x')", "scoreLister is nil")],
}


@pytest.mark.parametrize("text", [text for texts in TRUE.values() for text in texts])
def test_library_expression_is_true(text: str) -> None:
    outcome = cluster_environment().compile(text).evaluate({})
    assert outcome.error is None
    assert outcome.value is True


@pytest.mark.parametrize(("text", "message"), [case for cases in FAILS.values() for case in cases])
def test_library_expression_fails(text: str, message: str) -> None:
    outcome = cluster_environment().compile(text).evaluate({"managedCluster": {"metadata": {"name": "x"}}})
    assert message in str(outcome.error)


@pytest.mark.parametrize(
    "text",
    [
        "sets.contains([1], [1])",
        "math.greatest(1, 2)",
        "cel.bind(x, 1, x)",
        "[1].existsOne(x, true)",
        "semver('1.2.3', true)",
    ],
)
def test_function_that_the_reference_lacks_does_not_compile(text: str) -> None:
    with pytest.raises(CompileError):
        cluster_environment().compile(text)
