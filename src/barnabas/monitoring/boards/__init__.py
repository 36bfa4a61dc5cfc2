"""Generates boards for Grafana and alert rules for Prometheus from the table of metrics."""
