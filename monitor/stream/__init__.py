"""From records to durable panes: decode, join, journal, checkpoint."""
