"""From records to closings: decode, join, journal, checkpoint."""
