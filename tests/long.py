"""Long forms of tests, which `make test-long` runs beside the short ones of every run."""

from collections.abc import Sequence
from typing import Any

import pytest


def short_of(values: Sequence[object], count: int) -> list[Any]:
    """All values for ``parametrize``: the first few in the short form, the others in the long one alone."""
    return [*values[:count], *(pytest.param(value, marks=pytest.mark.long) for value in values[count:])]
