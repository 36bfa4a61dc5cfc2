"""A board of Grafana: panels with queries whose metrics are in the table.

A query names a metric in angle brackets by its MBean (``rate(<MBEAN>[1m])``), so that no board can ask for
what no node has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.monitoring.metric import MetricType
from barnabas.monitoring.table import metrics

_MBEAN = re.compile(r"<([^<>]+)>")
SCHEMA_VERSION = 39
PANEL_WIDTH, PANEL_HEIGHT, BOARD_WIDTH = 8, 7, 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Panel(NamedTuple):
    """One panel. `queries` are pairs of an expression and the legend of its series."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]


class Board(NamedTuple):
    """One board. `variables` are pairs of a name and the query of its values."""

    name: str
    title: str
    panels: Sequence[Panel]
    variables: Sequence[tuple[str, str]] = ()


def expression(text: str) -> str:
    """The query with the names of Prometheus. Raises KeyError where the table has no such metric."""
    return _MBEAN.sub(lambda found: selector_name(found.group(1)), text)


def selector_name(mbean: str) -> str:
    """The name in Prometheus; a histogram's is that of its buckets."""
    metric = metrics()[mbean]
    return f"{metric.name}_bucket" if metric.type is MetricType.HISTOGRAM else metric.name


def queries_of(board: Board) -> list[str]:
    """The expressions of all panels, as Prometheus gets them without a board's variables."""
    return [expression(text) for panel in board.panels for text, _ in panel.queries]


def board_json(board: Board) -> dict[str, object]:
    """The board as Grafana imports it."""
    return {
        "uid": f"barnabas-{board.name}",
        "title": f"Barnabas: {board.title}",
        "tags": ["barnabas"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_datasource(), *(_variable(*pair) for pair in board.variables)]},
        "panels": [_panel_json(at, panel) for at, panel in enumerate(board.panels)],
    }


def _datasource() -> dict[str, object]:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }


def _variable(name: str, query: str) -> dict[str, object]:
    text = expression(query)
    return {
        "name": name,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": text, "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel_json(at: int, panel: Panel) -> dict[str, object]:
    per_row = BOARD_WIDTH // PANEL_WIDTH
    return {
        "id": at + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": DATASOURCE,
        "gridPos": {
            "x": at % per_row * PANEL_WIDTH,
            "y": at // per_row * PANEL_HEIGHT,
            "w": PANEL_WIDTH,
            "h": PANEL_HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": DATASOURCE,
                "expr": expression(text),
                "legendFormat": legend,
            }
            for number, (text, legend) in enumerate(panel.queries)
        ],
    }
