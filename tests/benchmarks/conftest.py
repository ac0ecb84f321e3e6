"""Options of the benchmarks, and the table of budgets after them."""

import pytest

from tests.benchmarks.budgets import table


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of benchmarks."""
    parser.addoption("--rows", type=int, default=20_000_000, help="rows that Spark and its peers read")
    parser.addoption("--joined", type=int, default=10_000_000, help="predictions that Spark joins")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the rows that were measured."""
    for line in table():
        terminalreporter.write_line(line)
