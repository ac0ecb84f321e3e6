"""Reports on data at hand: evaluation, comparison, figures, text, HTML and JSON."""
