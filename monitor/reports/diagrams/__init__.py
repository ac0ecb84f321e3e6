"""What diagrams show, as plain numbers: pages draw them from JSON, :mod:`monitor.reports.figures` with matplotlib."""
