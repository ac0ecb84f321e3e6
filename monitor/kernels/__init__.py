"""Loops over arrays, compiled: array in, array out."""

from monitor.kernels.cache_file import install

install()
