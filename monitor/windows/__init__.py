"""Windows: settled events of a model over a span of time, evaluated."""
