"""Where events come from: Kafka, and the embedded log."""
