"""Windows become reports, and reports a snapshot."""
