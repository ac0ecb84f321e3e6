"""The way of an event: join, panes, checkpoints."""
