"""Where events come from: Kafka, the embedded log, files and tables."""
