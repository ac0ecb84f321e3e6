"""`monitor` as an application that spark-submit starts: it needs a file whose name ends in .py."""

from monitor.cli.main import main

main()
