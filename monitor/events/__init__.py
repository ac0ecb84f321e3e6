"""Events: their model, and how bytes become columns."""
