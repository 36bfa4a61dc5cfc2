"""Boards and alert rules ask for metrics that nodes have, and link to what helps."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from barnabas.monitoring.boards.alerts import alerts, rules_text
from barnabas.monitoring.boards.boards import BOARDS
from barnabas.monitoring.boards.panels import Board, Panel, board_json, queries_of
from barnabas.monitoring.metric import MetricType
from barnabas.monitoring.table import metrics
from tests.foreign_boards import BOARDS as FOREIGN_BOARDS
from tests.foreign_boards import OF_A_JVM, OF_KUBERNETES

ROOT = Path(__file__).resolve().parents[3]
NAME = re.compile(r"\b(?:kafka|barnabas|process)_\w+")


def known_names() -> set[str]:
    return {
        name + suffix
        for metric in metrics().values()
        for name in [metric.name]
        for suffix in (("_bucket",) if metric.type is MetricType.HISTOGRAM else ("",))
    }


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_board_asks_only_for_metrics_of_the_table(board: Board) -> None:
    text = json.dumps(board_json(board))
    asked = set(NAME.findall(text))
    assert asked and asked <= known_names()
    assert "<" not in "".join(queries_of(board))


def test_a_metric_that_no_node_has_makes_no_board() -> None:
    board = Board("b", "b", [Panel("p", "none", [("<kafka_nothing>", "")])])
    with pytest.raises(KeyError):
        board_json(board)


def test_panels_do_not_cover_each_other() -> None:
    for board in BOARDS:
        places = [
            (panel["gridPos"]["x"], panel["gridPos"]["y"])
            for panel in json.loads(json.dumps(board_json(board)))["panels"]
        ]
        assert len(set(places)) == len(places)


def test_rules_have_names_of_their_own_and_known_metrics() -> None:
    found = alerts()
    assert len({alert.name for alert in found}) == len(found)
    for alert in found:
        asked = set(NAME.findall(alert.expr))
        assert asked and asked <= known_names(), alert


def test_every_bold_alarm_without_a_comparison_makes_a_rule() -> None:
    """What the table calls an alarm by its usual phrases is one."""
    critical = {alert.expr for alert in alerts() if alert.severity == "critical"}
    for metric in metrics().values():
        if metric.alarm in ("**above 0**", "**0**") and "partition" not in metric.open_labels:
            assert any(metric.name in expr for expr in critical), metric.mbean


def test_the_runbook_has_the_section_of_each_rule() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line[3:].lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("## ")
    }
    assert {alert.anchor for alert in alerts()} <= headings


def test_the_rules_are_one_group_of_json() -> None:
    [group] = json.loads(rules_text("https://h/troubleshooting.html"))["groups"]
    assert len(group["rules"]) == len(alerts())
    assert all(
        rule["annotations"]["runbook_url"].startswith("https://h/troubleshooting.html#")
        for rule in group["rules"]
    )


@pytest.mark.parametrize("board", FOREIGN_BOARDS)
def test_a_board_made_for_kafka_asks_for_metrics_of_the_table(board: str) -> None:
    missing = FOREIGN_BOARDS[board] - known_names()
    assert not missing


def test_metrics_without_a_counterpart_are_named_in_the_documentation() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in OF_A_JVM | OF_KUBERNETES)
