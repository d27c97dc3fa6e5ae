"""Parse tokens to a syntax tree, by recursive descent with the reference's limits on depth and size."""

from __future__ import annotations

from collections.abc import Mapping

from kubecel.frame import Meter, charge_work
from kubecel.lexer import END, Token, tokenize
from kubecel.literals import parse_bytes, parse_double, parse_int, parse_string, parse_uint
from kubecel.macros import INVALID_HAS, RECEIVER_MACROS, Builder, Expander, MacroError, expand_has
from kubecel.source import EXPRESSION_SIZE_LIMIT, NOWHERE, Issue, Source
from kubecel.syntax import (
    Call,
    CreateList,
    CreateMap,
    CreateStruct,
    Entry,
    Expr,
    Field,
    Ident,
    Literal,
    Select,
)

Macros = Mapping[tuple[str, int], Expander]

MAX_DEPTH = 250

RULE_DEPTH_EXCEEDED = f"expression recursion limit exceeded: {MAX_DEPTH}"
TREE_DEPTH_EXCEEDED = "max recursion depth exceeded"
TOO_LONG = "expression code point size exceeds limit: size: {}, limit {}"
MAX_NODES = 200_000
EXPANDED_TOO_FAR = f"macros expand the expression to more than {MAX_NODES} nodes"

_RESERVED = frozenset(
    {
        "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let",
        "loop", "package", "namespace", "null", "return", "true", "var", "void", "while",
    }
)  # fmt: skip
_RELATIONS = frozenset({"<", "<=", ">=", ">", "==", "!=", "in"})
_PRODUCTS = frozenset({"*", "/", "%"})
_OPERATORS = {op: f"_{op}_" for op in ("<", "<=", ">=", ">", "==", "!=", "+", "-", "*", "/", "%")} | {
    "in": "@in"
}


class _Stop(Exception):
    def __init__(self, issue: Issue) -> None:
        super().__init__(issue.message)
        self.issue = issue
        # The operand of a dot without a name, and its first token.
        self.partial: Expr | None = None
        self.start = -1


NODE_WORK = 30
"""Units of work (see `frame`) per node, for all steps of compilation."""


def parse(source: Source, macros: Macros = RECEIVER_MACROS, meter: Meter | None = None) -> Expr:
    """Parse the whole text. Raise `CompileError`, or `Overrun` at the limit of the meter."""
    meter = meter or Meter()
    charge_work(meter, len(source.text) >> 3)
    if len(source.text) > EXPRESSION_SIZE_LIMIT:
        message = TOO_LONG.format(len(source.text), EXPRESSION_SIZE_LIMIT)
        raise source.error([Issue(NOWHERE, message)])
    tokens, issues = tokenize(source.text, meter)
    parser = _Parser(tokens, macros, meter)
    root: Expr | None = None
    try:
        root = parser.whole()
    except _Stop as stop:
        issues.append(stop.issue)
    issues += parser.issues
    if issues or root is None:
        raise source.error(issues)
    return root


class _Parser:
    __slots__ = (
        "_at",
        "_calc_depth",
        "_expr_depth",
        "_ids",
        "_macros",
        "_meter",
        "_relation_depth",
        "_tokens",
        "_tree",
        "issues",
    )

    def __init__(self, tokens: list[Token], macros: Macros, meter: Meter) -> None:
        self._tokens = tokens
        self._macros = macros
        self._meter = meter
        self._at = 0
        self._ids = 0
        self._expr_depth = 0
        self._relation_depth = 0
        self._calc_depth = 0
        # Nesting of counted operators below each node; zero if absent.
        self._tree: dict[int, int] = {}
        self.issues: list[Issue] = []

    def next_id(self) -> int:
        self._ids += 1
        charge_work(self._meter, NODE_WORK)
        if self._ids > MAX_NODES:
            # Reached only by chained macros that repeat their target: each doubles the tree.
            raise _Stop(Issue(NOWHERE, EXPANDED_TOO_FAR))
        return self._ids

    def whole(self) -> Expr:
        root = self._expr()
        token = self._tokens[self._at]
        if token.kind != END:
            raise self._unexpected(token, "an operator or the end")
        return root

    # --- depth -----------------------------------------------------------------------------------------------

    def _deepen(self, node: Expr, *parts: Expr, counted: bool) -> Expr:
        """Record the depth of ``node``; operators and member accesses count towards the limit."""
        depth = 0
        for part in parts:
            depth = max(depth, self._tree.get(part.id, 0))
        if counted:
            depth += 1
            if depth > MAX_DEPTH:
                raise _Stop(Issue(NOWHERE, TREE_DEPTH_EXCEEDED))
        if depth:
            self._tree[node.id] = depth
        return node

    # --- grammar ---------------------------------------------------------------------------------------------

    def _expr(self) -> Expr:
        self._expr_depth += 1
        if self._expr_depth > MAX_DEPTH:
            raise _Stop(Issue(NOWHERE, RULE_DEPTH_EXCEEDED))
        node = self._logical_or()
        token = self._tokens[self._at]
        if token.kind == "?":
            self._at += 1
            truthy = self._logical_or()
            self._expect(":")
            falsy = self._expr()
            call = Call(self.next_id(), token.offset, "_?_:_", (node, truthy, falsy))
            node = self._deepen(call, node, truthy, falsy, counted=True)
        self._expr_depth -= 1
        return node

    def _logical_or(self) -> Expr:
        terms, offset = [], 0
        while True:
            terms.append(self._logical_and())
            token = self._tokens[self._at]
            if token.kind != "||":
                break
            offset = offset or token.offset
            self._at += 1
        return self._chain("_||_", terms, offset)

    def _logical_and(self) -> Expr:
        terms, offset = [], 0
        while True:
            terms.append(self._relation(operand_only=False))
            token = self._tokens[self._at]
            if token.kind != "&&":
                break
            offset = offset or token.offset
            self._at += 1
        return self._chain("_&&_", terms, offset)

    def _chain(self, function: str, terms: list[Expr], offset: int) -> Expr:
        if len(terms) == 1:
            return terms[0]
        return self._deepen(Call(self.next_id(), offset, function, tuple(terms)), *terms, counted=False)

    def _relation(self, *, operand_only: bool) -> Expr:
        self._relation_depth += 1
        if self._relation_depth > MAX_DEPTH:
            raise _Stop(Issue(NOWHERE, RULE_DEPTH_EXCEEDED))
        node = self._calc(1)
        while not operand_only:
            token = self._tokens[self._at]
            if token.kind not in _RELATIONS:
                break
            self._at += 1
            right = self._relation(operand_only=True)
            call = Call(self.next_id(), token.offset, _OPERATORS[token.kind], (node, right))
            node = self._deepen(call, node, right, counted=True)
        self._relation_depth -= 1
        return node

    def _calc(self, precedence: int) -> Expr:
        self._calc_depth += 1
        if self._calc_depth > MAX_DEPTH:
            raise _Stop(Issue(NOWHERE, RULE_DEPTH_EXCEEDED))
        node = self._unary()
        while True:
            token = self._tokens[self._at]
            if token.kind in _PRODUCTS and precedence <= 2:
                binding = 3
            elif token.kind in ("+", "-") and precedence <= 1:
                binding = 2
            else:
                break
            self._at += 1
            right = self._calc(binding)
            call = Call(self.next_id(), token.offset, _OPERATORS[token.kind], (node, right))
            node = self._deepen(call, node, right, counted=True)
        self._calc_depth -= 1
        return node

    def _unary(self) -> Expr:
        token = self._tokens[self._at]
        kind = token.kind
        if kind not in ("!", "-"):
            return self._member()
        count = 0
        while self._tokens[self._at + count].kind == kind:
            count += 1
        if kind == "-" and count == 1 and self._tokens[self._at + 1].kind in ("int", "float"):
            # A single minus before a number is part of the number.
            return self._member()
        self._at += count
        operand = self._member()
        if count % 2 == 0:
            return operand
        function = "!_" if kind == "!" else "-_"
        call = Call(self.next_id(), token.offset, function, (operand,))
        return self._deepen(call, operand, counted=False)

    def _member(self) -> Expr:
        start = self._at
        node = self._primary()
        while True:
            token = self._tokens[self._at]
            if token.kind == ".":
                node = self._dot(node, token, start)
            elif token.kind == "[":
                self._at += 1
                optional = self._accept("?")
                index = self._expr()
                self._expect("]")
                function = "_[?_]" if optional else "_[_]"
                call = Call(self.next_id(), token.offset, function, (node, index))
                node = self._deepen(call, node, index, counted=True)
            else:
                return node

    def _dot(self, node: Expr, dot: Token, start: int) -> Expr:
        self._at += 1
        optional = self._accept("?")
        token = self._tokens[self._at]
        if token.kind not in ("ident", "escaped"):
            stop = self._unexpected(token, "a name")
            stop.partial, stop.start = node, start
            raise stop
        self._at += 1
        name = token.text[1:-1] if token.kind == "escaped" else token.text
        if optional:
            literal = Literal(self.next_id(), token.offset, name)
            call = Call(self.next_id(), dot.offset, "_?._", (node, literal))
            return self._deepen(call, node, counted=True)
        opening = self._tokens[self._at]
        if opening.kind == "(" and token.kind == "ident":
            self._at += 1
            args, broken = self._arguments()
            expr = self._receiver_call(name, node, args, opening)
            if broken is not None:
                raise broken
            return self._deepen(expr, node, *args, counted=True)
        select = Select(self.next_id(), dot.offset, node, name)
        return self._deepen(select, node, counted=True)

    def _receiver_call(self, name: str, target: Expr, args: list[Expr], opening: Token) -> Expr:
        expander = self._macros.get((name, len(args)))
        if expander is not None:
            try:
                return expander(Builder(self, opening.offset), target, args)
            except MacroError as error:
                return self._report(error.offset, error.message)
        return Call(self.next_id(), opening.offset, name, tuple(args), target)

    def _primary(self) -> Expr:
        token = self._tokens[self._at]
        match token.kind:
            case "ident" | ".":
                return self._named(token)
            case "(":
                self._at += 1
                node = self._expr()
                self._expect(")")
                return node
            case "[":
                self._at += 1
                return self._list_literal(token)
            case "{":
                self._at += 1
                return self._map_literal(token)
            case _:
                return self._literal(token)

    def _named(self, first: Token) -> Expr:
        prefix = "." if self._accept(".") else ""
        token = self._tokens[self._at]
        if token.kind != "ident":
            raise self._unexpected(token, "a name")
        self._at += 1
        following = self._tokens[self._at]
        if following.kind in ("{", "."):
            message = self._message_name(prefix + token.text)
            if message is not None:
                return message
        if token.text in _RESERVED:
            broken = None
            if following.kind == "(":
                self._at += 1
                _, broken = self._arguments()
            if broken is not None:
                raise broken
            return self._report(first.offset, f"reserved identifier: {token.text}")
        if following.kind != "(":
            return Ident(self.next_id(), token.offset, prefix + token.text)
        at = self._at
        self._at += 1
        is_has = token.text == "has" and not prefix
        try:
            args, broken = self._arguments()
        except _Stop as stop:
            if is_has and stop.partial is not None and stop.start == at + 1:
                self._report_has(stop.partial)
            raise
        if is_has and len(args) == 1:
            try:
                call = expand_has(Builder(self, following.offset), args[0])
            except MacroError as error:
                call = self._report(error.offset, error.message)
        else:
            call = Call(self.next_id(), following.offset, prefix + token.text, tuple(args))
        if broken is not None:
            raise broken
        return self._deepen(call, *args, counted=False)

    def _report_has(self, argument: Expr) -> None:
        """Report a problem of the argument of ``has()`` first, as the reference does."""
        if not isinstance(argument, Select):
            self._report(argument.offset, INVALID_HAS)

    def _message_name(self, name: str) -> Expr | None:
        """Parse the name of a message literal ``a.b.C{…}``; without a brace, consume nothing."""
        at = self._at
        while self._tokens[at].kind == "." and self._tokens[at + 1].kind == "ident":
            name += "." + self._tokens[at + 1].text
            at += 2
        if self._tokens[at].kind != "{":
            return None
        opening = self._tokens[at]
        self._at = at + 1
        fields: list[Field] = []
        while self._tokens[self._at].kind != "}":
            if not fields and self._accept(","):
                break
            optional = self._accept("?")
            token = self._tokens[self._at]
            if token.kind not in ("ident", "escaped"):
                raise self._unexpected(token, "a name")
            self._at += 1
            colon = self._expect(":")
            field = token.text[1:-1] if token.kind == "escaped" else token.text
            fields.append(Field(self.next_id(), colon.offset, field, self._expr(), optional))
            if not self._accept(","):
                break
        self._expect("}")
        node = CreateStruct(self.next_id(), opening.offset, name, tuple(fields))
        return self._deepen(node, *(field.value for field in fields), counted=False)

    def _arguments(self) -> tuple[list[Expr], _Stop | None]:
        """Parse arguments up to the closing parenthesis, and return the error if it is missing.

        The reference also expands a macro without the parenthesis, and its error may come first.
        """
        args: list[Expr] = []
        if self._accept(")"):
            return args, None
        args.append(self._expr())
        while self._accept(","):
            args.append(self._expr())
        if self._accept(")"):
            return args, None
        return args, self._unexpected(self._tokens[self._at], "')'")

    def _list_literal(self, opening: Token) -> Expr:
        elements: list[Expr] = []
        optional: set[int] = set()
        while self._tokens[self._at].kind != "]":
            if not elements and self._accept(","):
                break
            if self._accept("?"):
                optional.add(len(elements))
            elements.append(self._expr())
            if not self._accept(","):
                break
        self._expect("]")
        node = CreateList(self.next_id(), opening.offset, tuple(elements), frozenset(optional))
        return self._deepen(node, *elements, counted=False)

    def _map_literal(self, opening: Token) -> Expr:
        entries: list[Entry] = []
        parts: list[Expr] = []
        while self._tokens[self._at].kind != "}":
            if not entries and self._accept(","):
                break
            optional = self._accept("?")
            key = self._expr()
            colon = self._expect(":")
            value = self._expr()
            entries.append(Entry(self.next_id(), colon.offset, key, value, optional))
            parts += (key, value)
            if not self._accept(","):
                break
        self._expect("}")
        return self._deepen(CreateMap(self.next_id(), opening.offset, tuple(entries)), *parts, counted=False)

    def _literal(self, token: Token) -> Expr:
        negative = token.kind == "-"
        if negative:
            self._at += 1
        number = self._tokens[self._at]
        value: object
        try:
            match number.kind:
                case "int":
                    value = parse_int(number.text, negative=negative)
                case "float":
                    value = parse_double(number.text, negative=negative)
                case "uint" if not negative:
                    value = parse_uint(number.text)
                case "string" if not negative:
                    value = parse_string(number.text)
                case "bytes" if not negative:
                    value = parse_bytes(number.text)
                case "true" | "false" if not negative:
                    value = number.kind == "true"
                case "null" if not negative:
                    value = None
                case _:
                    raise self._unexpected(number, "a value")
        except ValueError as error:
            self._at += 1
            return self._report(token.offset, str(error))
        self._at += 1
        return Literal(self.next_id(), token.offset, value)

    # --- tokens ----------------------------------------------------------------------------------------------

    def _accept(self, kind: str) -> bool:
        if self._tokens[self._at].kind == kind:
            self._at += 1
            return True
        return False

    def _expect(self, kind: str) -> Token:
        token = self._tokens[self._at]
        if token.kind != kind:
            raise self._unexpected(token, f"'{kind}'")
        self._at += 1
        return token

    def _unexpected(self, token: Token, expected: str) -> _Stop:
        actual = "the expression ends" if token.kind == END else f"found '{token.text}'"
        return _Stop(Issue(token.offset, f"Syntax error: {actual} where {expected} is expected"))

    def _report(self, offset: int, message: str) -> Expr:
        """Record a problem and return a placeholder for the invalid part."""
        self.issues.append(Issue(offset, message))
        return Literal(self.next_id(), offset, None)
