"""Print the table of budgets after the benchmarks."""

import pytest

from tests.benchmarks.budgets import table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the rows that were measured."""
    for line in table():
        terminalreporter.write_line(line)
