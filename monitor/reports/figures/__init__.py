"""Pictures of calibration for people who are not statisticians.

Each function returns a :class:`matplotlib.figure.Figure`; nothing here uses pyplot or keeps state, so figures may be
drawn in many threads. :mod:`.output` writes them: the same bytes for the same figure.
"""
