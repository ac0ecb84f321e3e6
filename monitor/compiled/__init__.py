"""Compiled loops on disk: kept by their content, and where."""
