"""Writes docs/series.md: ``python -m monitor.exposition > docs/series.md``."""

import sys

from monitor.exposition.page import to_markdown
from monitor.measures import MEASURES

if __name__ == "__main__":
    sys.stdout.write(to_markdown(MEASURES.values()))
