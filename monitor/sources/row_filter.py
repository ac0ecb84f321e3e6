"""Row filters: the conditions of SQL's WHERE on columns and constants, such as ``region = 'eu' AND score < 0.9``.

pyarrow evaluates conditions and prunes files by them, but reads no text. Python's parser reads the text, once words and
signs of SQL are Python's; what it may hold is listed in :class:`RowFilter`.
"""

import ast
import operator
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from monitor.errors import InputError

_TOKEN: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`([^`]+)`|<>|[<>!=]=|=|[A-Za-z_]\w*""")
_WORDS: Final = {
    **{word: word for word in ("and", "or", "not", "in", "is")},
    "null": "None",
    "true": "True",
    "false": "False",
    "=": "==",
    "<>": "!=",
}
"""SQL, in lower case -> Python."""

_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], pc.Expression]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ALLOWED: Final = (
    "comparisons of columns with constants (=, !=, <, <=, >, >=, IN (...), IS NULL, IS NOT NULL), AND, OR, NOT and "
    "parentheses are understood"
)


class RowFilter:
    """A condition that rows must meet.

    ``=``, ``!=`` (``<>``), ``<``, ``<=``, ``>``, ``>=`` between a column and a constant or two columns; ``IN (1, 2)``,
    ``IS NULL``; AND, OR, NOT and parentheses. Constants are numbers, texts in quotes of either kind, true and false. A
    time is a text in RFC 3339, UTC if without a zone. A column whose name is no word stands in backticks. As in SQL, a
    comparison with a missing value is not true, and neither is its negation.

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
        self._names: dict[str, str] = {}
        try:
            tree = ast.parse(_TOKEN.sub(self._python, text).strip(), mode="eval").body
        except (SyntaxError, ValueError) as error:
            raise InputError(f"--where {text!r} cannot be read: {_ALLOWED}") from error
        self._set(tree)
        if not self.columns:
            self._refuse("it names no column")

    def _set(self, tree: ast.expr) -> None:
        self._tree = tree
        self.columns: Sequence[str] = self._names_in(tree)
        """The columns that it needs."""

    def __str__(self) -> str:
        return self._text

    def _python(self, token: re.Match[str]) -> str:
        """Spell a token as Python does; columns get names that are words."""
        text = token[0]
        if text[0] in "'\"":
            return text
        word = _WORDS.get(text.lower())
        if word is not None or not (text[0] == "`" or text[0].isalpha() or text[0] == "_"):
            return word or text
        name = token[1] or text
        alias = f"column_{list(dict.fromkeys([*self._names.values(), name])).index(name)}"
        self._names[alias] = name
        return alias

    def within(self, columns: Container[str]) -> "RowFilter | None":
        """The part that needs only these columns: a row that does not meet it does not meet the whole. None if none."""
        parts = [part for part in self._conjuncts(self._tree) if all(name in columns for name in self._names_in(part))]
        if not parts:
            return None
        result = copy(self)
        result._set(parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts))  # noqa: SLF001 - of this class
        return result

    def _conjuncts(self, node: ast.expr) -> Iterator[ast.expr]:
        """Yield the conditions that AND joins at the outermost level."""
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            for part in node.values:
                yield from self._conjuncts(part)
        else:
            yield node

    def _names_in(self, node: ast.expr) -> list[str]:
        aliases = (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
        return list(dict.fromkeys(self._names[alias] for alias in aliases))

    def expression(self, schema: pa.Schema) -> pc.Expression:
        """Translate to an expression over columns of these types.

        Raises
        ------
        InputError
            A column is not there, or its type cannot be compared with the constant.
        """
        for name in self.columns:
            if name not in schema.names:
                listed = ", ".join(map(repr, schema.names))
                self._refuse(f"there is no column {name!r}; columns are {listed}")
        return self._condition(self._tree, schema)

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
        signs = {ast.Eq: "=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
        for node in self._conjuncts(self._tree):
            if not (isinstance(node, ast.Compare) and isinstance(node.left, ast.Name)):
                continue
            constant, sign = node.comparators[0], signs.get(type(node.ops[0]))
            value = constant.value if isinstance(constant, ast.Constant) else None
            if sign is not None and isinstance(value, int | float | str) and not isinstance(value, bool):
                yield self._names[node.left.id], sign, value

    def _refuse(self, reason: str) -> NoReturn:
        raise InputError(f"--where {self._text!r}: {reason}")

    def _condition(self, node: ast.expr, schema: pa.Schema) -> pc.Expression:
        if isinstance(node, ast.BoolOp):
            join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            return reduce(join, (self._condition(part, schema) for part in node.values))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self._condition(node.operand, schema)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs = zip(sides, node.ops, sides[1:], strict=False)
            return reduce(operator.and_, (self._comparison(left, op, right, schema) for left, op, right in pairs))
        if isinstance(node, ast.Name) and pa.types.is_boolean(schema.field(self._names[node.id]).type):
            return pc.field(self._names[node.id])
        return self._refuse(_ALLOWED)

    def _comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr, schema: pa.Schema) -> pc.Expression:
        if isinstance(op, ast.Is | ast.IsNot):
            if not (isinstance(left, ast.Name) and isinstance(right, ast.Constant) and right.value is None):
                self._refuse("IS goes with NULL: write IS NULL or IS NOT NULL")
            missing = pc.field(self._names[left.id]).is_null()
            return missing if isinstance(op, ast.Is) else ~missing
        if isinstance(op, ast.In | ast.NotIn):
            choices = right.elts if isinstance(right, ast.Tuple | ast.List) else [right]
            if not choices:
                self._refuse("IN needs at least one value")
            # Equalities, not is_in: a missing value is neither in the list nor not in it.
            equal = reduce(operator.or_, (self._comparison(left, ast.Eq(), choice, schema) for choice in choices))
            return equal if isinstance(op, ast.In) else ~equal
        compare = _COMPARISONS[type(op)]
        if isinstance(left, ast.Name) and isinstance(right, ast.Name):
            return compare(*(pc.field(self._names[side.id]) for side in (left, right)))
        if isinstance(left, ast.Name):
            return compare(*self._operands(left, right, schema))
        if isinstance(right, ast.Name):
            column, constant = self._operands(right, left, schema)
            return compare(constant, column)
        return self._refuse(_ALLOWED)

    def _operands(self, name: ast.Name, constant: ast.expr, schema: pa.Schema) -> tuple[pc.Expression, pc.Expression]:
        """The column and the constant, in a type that both have."""
        try:
            value = ast.literal_eval(constant)
        except ValueError:
            self._refuse(_ALLOWED)
        column = self._names[name.id]
        kind = schema.field(column).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if value is None:
            self._refuse("nothing equals NULL: write IS NULL or IS NOT NULL")
        if isinstance(value, str):
            if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
                return pc.field(column), pc.scalar(self._time(value, kind))
            if _is_text(kind) or pa.types.is_null(kind):
                return pc.field(column).cast(pa.string()), pc.scalar(value)
        elif isinstance(value, bool):
            if pa.types.is_boolean(kind):
                return pc.field(column), pc.scalar(value)
        elif isinstance(value, int | float):
            if pa.types.is_integer(kind) or pa.types.is_floating(kind):
                return pc.field(column), pc.scalar(value)
            if pa.types.is_decimal(kind) or _is_text(kind) or pa.types.is_null(kind):
                return pc.field(column).cast(pa.float64()), pc.scalar(float(value))
        return self._refuse(f"column {column!r} holds {kind}, which {value!r} cannot be compared with")

    def _time(self, text: str, kind: pa.DataType) -> pa.Scalar:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self._refuse(f"{text!r} is no time: write it like '2026-11-20' or '2026-11-20T10:00:00Z'")
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        if pa.types.is_date(kind):
            return pa.scalar(moment.date(), kind)
        return pa.scalar(moment if kind.tz else moment.replace(tzinfo=None), pa.timestamp("us", kind.tz)).cast(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
