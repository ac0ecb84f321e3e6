"""Stream of events, from records to closings: decode, join, journal, checkpoint."""
