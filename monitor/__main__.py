"""`python -m monitor`."""

from monitor.cli.main import main

main()
