"""For scorers: applies the map that serves, locally, and keeps it up to date. Filled in by its own commit."""
