"""Loops over arrays, compiled: array in, array out."""

from monitor.kernels import cache_file, notice

cache_file.install()
notice.install()
