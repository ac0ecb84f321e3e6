"""One migration a file, of which each names the one before it."""
