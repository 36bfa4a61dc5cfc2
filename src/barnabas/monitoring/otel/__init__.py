"""Metrics and traces for OpenTelemetry: loaded where ``otel.endpoint`` is set, and nowhere else."""
