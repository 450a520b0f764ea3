"""Records for other tools: OpenTelemetry, Prometheus, logging. Each is an extra, imported by name."""
