"""Boards for Grafana and alert rules for Prometheus, made of the table of metrics."""
