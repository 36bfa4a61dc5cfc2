"""Metrics and health of a node, over HTTP.

A node loads this package where `metrics.listeners` or `otel.endpoint` is set.
:mod:`~barnabas.monitoring.table` names every metric, :mod:`~barnabas.monitoring.exposition` writes the text
of a scrape, `sources/` counts, `http/` serves, `otel/` sends.
"""
