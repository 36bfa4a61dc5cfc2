"""Moving replicas with their progress, the log directories, cancellations, and elections of
leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.cli.commands.leaders import KINDS
from barnabas.cli.plain_text import counted
from barnabas.cli.reassignment.reassignment_progress import Placed, under_way
from barnabas.cli.reassignment.reassignment_throttle import rates_in_force
from barnabas.console.cluster_views.parts import part
from barnabas.console.cluster_views.replica_moves import (
    cancel_moves,
    execute_election,
    moves_and_directories,
    plan_election,
)
from barnabas.console.pages.page import Page, PageRequest
from barnabas.console.rendering import link
from barnabas.types import TopicPartition

ROWS = 500
Values = Mapping[str, Any]


def load(asked: PageRequest) -> Values:
    rows, nodes = moves_and_directories(asked.connected, asked.user.histories)
    unthrottled: dict[int, int] = {}
    rates = part(lambda: rates_in_force(asked.connected), unthrottled).value if rows else {}
    return {
        "rows": rows[:ROWS], "found": len(rows), "nodes": nodes, "throttles": rates,
        "left": sum(node.bytes_left for node in nodes),
    }  # fmt: skip


def load_cancel(asked: PageRequest) -> Values:
    topic = asked.text("topic")
    command = ["reassign", "cancel", *(["--topic", topic] if topic else [])]
    return {"topic": topic, "rows": _chosen(asked, topic), "command_words": command}


def cancel(asked: PageRequest) -> str:
    """Cancel what the plan of this address shows now."""
    topic = asked.text("topic")
    chosen = _chosen(asked, topic)
    if not chosen:
        raise ValueError("nothing is under way there any more")
    cancel_moves(asked.connected, sorted(chosen))
    verb = "goes" if len(chosen) == 1 else "go"
    return link("/moves", done=f"Cancelled: {counted(len(chosen), 'partition')} {verb} back.")


def _chosen(asked: PageRequest, topic: str) -> dict[TopicPartition, Placed]:
    moving = sorted(under_way(asked.connected).items(), key=lambda item: item[0])
    return {tp: placed for tp, placed in moving if not topic or tp.topic == topic}


def load_election(asked: PageRequest) -> Values:
    plan = plan_election(asked.connected, _partition(asked), asked.text("kind", "preferred"))
    return {"plan": plan, "kinds": list(KINDS)}


def hold_election(asked: PageRequest) -> str:
    """Hold the election that this address asks for; an unclean one needs the form's word for it."""
    kind = asked.text("kind", "preferred")
    if kind == "unclean" and asked.form.get("loses") != "1":
        raise ValueError(
            "an unclean election may lose records: the form has to say that this is meant"
        )
    plan = plan_election(asked.connected, _partition(asked), kind)
    execute_election(asked.connected, plan)
    topic, index = plan.partition
    done = f"A leader was elected for {plan.partition}."
    return link("/topic", name=topic, partition=index, done=done)


def _partition(asked: PageRequest) -> TopicPartition:
    return TopicPartition(asked.needed("topic"), asked.number("partition", 0))


PAGE = Page("/moves", "moves.html", "moves", load, live_ms=2_000)
CANCEL = Page("/moves/cancel", "moves-cancel.html", "moves", load_cancel, change=cancel)
ELECTION = Page("/election", "election.html", "topics", load_election, change=hold_election)
