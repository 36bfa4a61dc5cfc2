"""Hostile values on a page: HTML, scripts, escape sequences, bytes that are no text."""

from __future__ import annotations

from typing import Any

import pytest
from markupsafe import Markup

from barnabas.cli.reports.quorum_view import QuorumView
from barnabas.console.cluster_views.cluster_health import NodeView, Problem
from barnabas.console.cluster_views.event_feed import EventFeed, moments_of
from barnabas.console.cluster_views.parts import Part
from barnabas.console.commands import command_line
from barnabas.console.rendering import Renderer, link, number, shown, size, sparkline
from barnabas.metadata.views.cluster_events import ClusterEvent

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</textarea><svg/onload=alert(1)>",
    "{{ 7*7 }}{% include 'frame.html' %}",
    "javascript:alert(1)",
    "'-alert(1)-'",
]


def rendered(**values: Any) -> str:
    facts = {
        "version": "1", "read_only": False, "navigation": (), "can_sign_out": False,
        "command_line": command_line,
    }  # fmt: skip
    return Renderer(facts).render("cluster.html", {"frame": "fragment.html", **values})


def page_with(text: str) -> str:
    """The page of the cluster with `text` in every place that a cluster or its clients fill."""
    event = ClusterEvent(1, 1, "isr", text, text, text)
    return rendered(
        cluster_id=text,
        problems=[Problem("bad", text, text, link("/events", about=text))],
        topics=1,
        states={"New": 0, "Online": 1, "Offline": 0, "UnderReplicated": 0},
        nodes=[NodeView(1, text, text, True, why=text)],
        features={"metadata.version": text},
        written={1: []},
        most_leaders=1,
        quorum=Part[QuorumView | None](None, text),
        feed=EventFeed(lambda: pytest.fail("the feed is not read")),
        moments=moments_of([event]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_a_value_is_text_on_the_page(text: str) -> None:
    page = page_with(text)
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "<svg/onload" not in page
    assert "49" not in page
    assert 'href="javascript:' not in page


def test_control_characters_are_shown_as_escapes() -> None:
    assert shown("a\x1b[31mb\x00c\x9bd") == "a\\x1b[31mb\\x00c\\x9bd"


def test_marks_that_turn_the_direction_of_text_are_shown_as_escapes() -> None:
    assert shown("user\u202etxt.exe\u2066") == "user\\u202etxt.exe\\u2066"


def test_bytes_that_are_no_text_are_shown_as_escapes() -> None:
    assert shown(b"ok\xff\xfe<") == "ok\\xff\\xfe<"


@pytest.mark.slow
def test_halves_of_a_surrogate_pair_do_not_stop_a_page() -> None:
    assert "\\ud800" in page_with("broken \ud800 text").encode().decode()


def test_a_link_quotes_what_it_carries() -> None:
    assert link("/t", partition=0, first=0.0) == "/t?partition=0&first=0.0"
    assert link("/t", name="a&b=<c>", none=None, empty="") == "/t?name=a%26b%3D%3Cc%3E"


def test_a_command_is_quoted_for_a_shell() -> None:
    assert command_line(["groups", "describe", "$(rm -rf ~)'"]) == (
        "barnabas groups describe '$(rm -rf ~)'\"'\"''"
    )


def test_a_sparkline_has_numbers_only() -> None:
    drawn = sparkline([0.0, 5.0, 10.0])
    assert isinstance(drawn, Markup)
    assert 'points="0.0,19.0 36.0,10.0 72.0,1.0"' in drawn


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0\u202fB"), (1234, "1.23\u202fkB"), (999_700, "1.00\u202fMB")]
)
def test_sizes_have_three_digits(value: int, text: str) -> None:
    assert size(value) == text


def test_numbers_are_grouped() -> None:
    assert (number(1234567), number(None), number(0.5)) == ("1\u202f234\u202f567", "–", "0.5")
