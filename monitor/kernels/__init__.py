"""Loops over arrays, compiled: array in, array out."""
