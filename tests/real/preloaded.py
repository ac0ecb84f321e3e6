"""Loads, where it is imported, what a service loads when it starts."""

import monitor.cli.serve  # noqa: F401
from monitor.app.warmup import warm_up

warm_up()
