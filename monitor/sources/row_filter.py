"""Row filters: the conditions of SQL's WHERE on columns and constants, such as ``region = 'eu' AND score < 0.9``.

pyarrow evaluates conditions and prunes files by them, but reads no text.
"""

import operator
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, Final, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from monitor.errors import InputError, OptionError
from monitor.options import Option
from monitor.scores.arguments import listed

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")+"|`(?:[^`]|``)+`)|(?P<word>[^\W\d]\w*)"""
    r"""|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?!\w)|(?P<sign><>|[<>!=]=|[=<>(),+-])|(?P<end>$))"""
)
_KEYWORDS: Final = frozenset({"AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "FALSE"})
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], pc.Expression]]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MAX_NAMES: Final = 1000
"""Columns named in one condition, each value of IN counted: Arrow's stack overflows at some 7,000."""

_MAX_DIGITS: Final = 38
"""Digits of a decimal, in Arrow and in DuckDB."""

_ALLOWED: Final = (
    "comparisons of columns with constants (=, !=, <, <=, >, >=, IN (...), IS NULL, IS NOT NULL), AND, OR, NOT and "
    "parentheses are understood, texts in single quotes"
)


class _Column(NamedTuple):
    name: str


class _Comparison(NamedTuple):
    left: "_Node"
    sign: str
    right: "_Node"


class _IsNull(NamedTuple):
    operand: "_Node"


class _Not(NamedTuple):
    condition: "_Node"


class _Joined(NamedTuple):
    word: str
    parts: Sequence["_Node"]


_Constant = bool | int | Decimal | float | str | None
_Node = _Column | _Comparison | _IsNull | _Not | _Joined | _Constant


class RowFilter:
    """A condition that rows must meet, with the meaning that it has in SQL.

    ``=``, ``!=`` (``<>``), ``<``, ``<=``, ``>``, ``>=`` between a column and a constant or two columns; ``IN (1, 2)``,
    ``IS NULL``; AND, OR, NOT and parentheses. Constants are numbers, texts in single quotes (``'O''Brien'``), true and
    false. A time is a text in RFC 3339, UTC if without a zone. A column whose name is no word stands in double quotes
    or backticks. A comparison with a missing value is not true, and neither is its negation.

    Parameters
    ----------
    text
        The condition.

    Raises
    ------
    InputError
        It cannot be read.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._set(_Parser(text).parse())
        names = len(list(_names_in(self._tree)))
        if not names:
            self._refuse("it names no column")
        if names > _MAX_NAMES:
            self._refuse(
                f"it has {names:,} comparisons, at most {_MAX_NAMES:,} are read; {Option.QUERY} can join a table"
            )

    def _set(self, tree: _Node) -> None:
        self._tree = tree
        self.columns: Sequence[str] = list(dict.fromkeys(_names_in(tree)))
        """The columns that it needs."""

    def __str__(self) -> str:
        return self._text

    def within(self, columns: Container[str]) -> "RowFilter | None":
        """The part that needs only these columns: a row that does not meet it does not meet the whole. None if none."""
        parts = [part for part in _conjuncts(self._tree) if all(name in columns for name in _names_in(part))]
        if not parts:
            return None
        result = copy(self)
        result._set(_Joined("AND", parts))  # noqa: SLF001 - of this class
        return result

    def require_columns(self, names: Sequence[str], table: str = "") -> None:
        """Raise InputError if a column that it needs is not among those of the table."""
        for name in self.columns:
            if name not in names:
                raise InputError(
                    f"{table and f'{table}: '}{Option.WHERE} {self._text!r}: there is no column {name!r}; "
                    f"columns are {listed(names)}, and texts stand in single quotes"
                )

    def expression(self, schema: pa.Schema) -> pc.Expression:
        """Translate to an expression over columns of these types.

        Raises
        ------
        InputError
            A column is not there, or its type cannot be compared with the constant.
        """
        self.require_columns(schema.names)
        expression = self._condition(self._tree, schema)
        try:
            schema.empty_table().filter(expression)
        except pa.ArrowException as error:
            self._refuse(f"columns cannot be compared: {error}")
        return expression

    def keep(self, table: pa.Table) -> pa.Table:
        """Select the rows that meet the condition."""
        try:
            return table.filter(self.expression(table.schema))
        except pa.ArrowInvalid as error:
            self._refuse(f"a value cannot be compared: {error}")

    def select(
        self, names: Sequence[str], arrays: Sequence[pa.Array], columns: Sequence[str]
    ) -> Iterator[list[pa.Array]]:
        """Yield the arrays of ``columns`` in the rows that meet the condition, of arrays of these names."""
        kept = self.keep(pa.Table.from_arrays(list(arrays), list(names))).combine_chunks()
        for batch in kept.to_batches():
            yield [batch.column(name) for name in columns]

    def bounds(self) -> Iterator[tuple[str, str, float | str]]:
        """Yield (column, sign, constant) that every row must meet: for readers that skip files by them."""
        for node in _conjuncts(self._tree):
            if not (isinstance(node, _Comparison) and isinstance(node.left, _Column)):
                continue
            name, sign, value = node.left.name, node.sign.replace("==", "="), node.right
            if sign in {"=", "<", "<=", ">", ">="} and isinstance(value, int | Decimal | float | str):
                if isinstance(value, str):
                    yield name, sign, value
                elif not isinstance(value, bool):
                    yield name, sign, float(value)

    def _refuse(self, reason: str) -> NoReturn:
        raise OptionError(Option.WHERE, f" {self._text!r}: {reason}")

    def _condition(self, node: _Node, schema: pa.Schema) -> pc.Expression:
        match node:
            case _Joined(word, parts):
                join = operator.and_ if word == "AND" else operator.or_
                return reduce(join, (self._condition(part, schema) for part in parts))
            case _Not(condition):
                return ~self._condition(condition, schema)
            case _IsNull(_Column(name)):
                return pc.field(name).is_null()
            case _Comparison(_Column() as left, sign, _Column() as right):
                return _COMPARISONS[sign](pc.field(left.name), pc.field(right.name))
            case _Comparison(_Column(name), sign, constant) if isinstance(constant, _Constant):
                return _COMPARISONS[sign](*self._operands(name, constant, schema))
            case _Comparison(constant, sign, _Column(name)) if isinstance(constant, _Constant):
                column, scalar = self._operands(name, constant, schema)
                return _COMPARISONS[sign](scalar, column)
            case _Column(name) if pa.types.is_boolean(schema.field(name).type):
                return pc.field(name)
            case _Column(name) if pa.types.is_null(schema.field(name).type):
                return pc.field(name).cast(pa.bool_())
        return self._refuse(_ALLOWED)

    def _operands(self, name: str, value: _Constant, schema: pa.Schema) -> tuple[pc.Expression, pc.Expression]:
        """The column and the constant, in types that can be compared."""
        kind, column = schema.field(name).type, pc.field(name)
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if value is None:
            self._refuse("nothing equals NULL: write IS NULL or IS NOT NULL")
        if pa.types.is_null(kind):
            return column, pc.scalar(value)
        if isinstance(value, str):
            if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
                return column, pc.scalar(self._time(value, kind))
            if _is_text(kind):
                return column.cast(pa.string()), pc.scalar(value)
        elif isinstance(value, bool):
            if pa.types.is_boolean(kind):
                return column, pc.scalar(value)
        elif pa.types.is_floating(kind):
            # In the type of the column, as 0.1 is another number in 32 bits than in 64.
            return column, pc.scalar(pa.scalar(float(value), kind))
        elif pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            return column, pc.scalar(_exact(value, kind))
        elif _is_text(kind):
            return column.cast(pa.float64()), pc.scalar(float(value))
        return self._refuse(f"column {name!r} holds {kind}, which {_shown(value)} cannot be compared with")

    def _time(self, text: str, kind: pa.DataType) -> pa.Scalar:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self._refuse(f"{text!r} is no time: write it like '2026-11-20' or '2026-11-20T10:00:00Z'")
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        if pa.types.is_date(kind):
            return pa.scalar(moment.date(), kind)
        return pa.scalar(moment if kind.tz else moment.replace(tzinfo=None), pa.timestamp("us", kind.tz))


class _Parser:
    """Parses a condition by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._tokens_of(text)
        self._kind, self._token = next(self._tokens)

    def _tokens_of(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield (kind, text) of each token: a keyword in upper case, the text within quotes."""
        at = 0
        while True:
            match = _TOKEN.match(text, at)
            if match is None:
                self._refuse()
            kind, at = str(match.lastgroup), match.end()
            token = match[kind]
            if kind in {"text", "name"}:
                token = token[1:-1].replace(token[0] * 2, token[0])
            elif kind == "word":
                kind, token = ("keyword", token.upper()) if token.upper() in _KEYWORDS else ("name", token)
            yield kind, token

    def parse(self) -> _Node:
        """Parse the whole text."""
        tree = self._condition()
        if self._kind != "end":
            self._refuse()
        return tree

    def _refuse(self) -> NoReturn:
        raise OptionError(Option.WHERE, f" {self._text!r} cannot be read: {_ALLOWED}")

    def _next(self) -> str:
        token = self._token
        self._kind, self._token = next(self._tokens)
        return token

    def _accept(self, *tokens: str) -> str | None:
        """Consume the token if it is one of these keywords or signs."""
        return self._next() if self._kind in {"keyword", "sign"} and self._token in tokens else None

    def _require(self, token: str) -> None:
        if self._accept(token) is None:
            self._refuse()

    def _condition(self) -> _Node:
        return self._joined("OR", lambda: self._joined("AND", self._negation))

    def _joined(self, word: str, parse: Callable[[], _Node]) -> _Node:
        parts = [parse()]
        while self._accept(word):
            parts.append(parse())
        return parts[0] if len(parts) == 1 else _Joined(word, parts)

    def _negation(self) -> _Node:
        return _Not(self._negation()) if self._accept("NOT") else self._predicate()

    def _predicate(self) -> _Node:
        left = self._operand()
        if sign := self._accept(*_COMPARISONS):
            return _Comparison(left, sign, self._operand())
        if self._accept("IS"):
            negated = self._accept("NOT")
            self._require("NULL")
            return _Not(_IsNull(left)) if negated else _IsNull(left)
        negated = self._accept("NOT")
        if not self._accept("IN"):
            return self._refuse() if negated else left
        self._require("(")
        choices = [self._operand()]
        while self._accept(","):
            choices.append(self._operand())
        self._require(")")
        # Equalities, because a missing value is neither in the list nor not in it.
        among = _Joined("OR", [_Comparison(left, "=", choice) for choice in choices])
        return _Not(among) if negated else among

    def _operand(self) -> _Node:
        if self._accept("("):
            inner = self._condition()
            self._require(")")
            return inner
        if word := self._accept("NULL", "TRUE", "FALSE"):
            return {"NULL": None, "TRUE": True, "FALSE": False}[word]
        sign = self._accept("+", "-")
        if self._kind == "number":
            return _number(f"{sign or ''}{self._next()}")
        if sign or self._kind not in {"text", "name"}:
            self._refuse()
        return self._next() if self._kind == "text" else _Column(self._next())


def _number(text: str) -> _Constant:
    """Read a number as SQL does: whole, decimal, or with an exponent or more digits than decimals have, a double."""
    if "e" in text.lower() or len(text) > _MAX_DIGITS:
        return float(text)
    return Decimal(text) if "." in text else int(text)


def _exact(value: Decimal | float, kind: pa.DataType) -> pa.Scalar | Decimal | float:
    """A number for comparison with integers or decimals: Arrow compares those exactly with decimals of any scale."""
    if not isinstance(value, int):
        return value
    try:
        return pa.scalar(value, kind)
    except (pa.ArrowInvalid, OverflowError):  # beyond the integers of this type
        return Decimal(value)


def _shown(value: _Constant) -> str:
    return str(value) if isinstance(value, Decimal) else repr(value)


def _conjuncts(node: _Node) -> Iterator[_Node]:
    """Yield the conditions that AND joins at the outermost level."""
    if isinstance(node, _Joined) and node.word == "AND":
        for part in node.parts:
            yield from _conjuncts(part)
    else:
        yield node


def _names_in(node: object) -> Iterator[str]:
    if isinstance(node, _Column):
        yield node.name
    elif isinstance(node, tuple | list):
        for part in node:
            yield from _names_in(part)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
