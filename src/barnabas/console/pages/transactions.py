"""Transactions: all of them, one, those that hang, and the producers of a partition; one that hangs is
aborted after it was shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.client.transaction_admin import describe_transaction
from barnabas.console.cluster_views.transaction_views import (
    MINUTES,
    OPEN_STATES,
    STATES,
    described,
    execute_abort,
    hanging,
    listed,
    now_ms,
    plan_abort,
    producers_of,
)
from barnabas.console.pages.page import Page, PageRequest
from barnabas.console.rendering import link
from barnabas.types import TopicPartition

ROWS = 200
Values = Mapping[str, Any]


def load(asked: PageRequest) -> Values:
    text, state = asked.text("q"), asked.text("state")
    first = asked.number("first", 0)
    if state not in ("", "open", *STATES):
        raise ValueError(f"a transaction is open or {', '.join(STATES)}, not {state!r}")
    states = list(OPEN_STATES) if state == "open" else [state] * bool(state)
    if state == "open":  # an older cluster refuses a state that it does not have
        found = [one for one in listed(asked.connected, [], text) if one.state in states]
    else:
        found = listed(asked.connected, states, text)
    shown = found[first : first + ROWS]
    return {
        "rows": shown, "described": described(asked.connected, shown), "found": len(found),
        "first": first, "step": ROWS, "q": text, "state": state, "states": STATES,
        "open_states": OPEN_STATES, "command_words": _command(states),
    }  # fmt: skip


def load_one(asked: PageRequest) -> Values:
    name = asked.needed("id")
    connected = asked.connected
    found = connected.call(describe_transaction(connected.client, name))
    return {
        "name": name, "transaction": found, "open_states": OPEN_STATES,
        "coordinator": connected.client.coordinator_node(name),
    }  # fmt: skip


def load_hanging(asked: PageRequest) -> Values:
    topic, minutes = asked.text("topic"), asked.number("minutes", MINUTES)
    command = ["transactions", "find-hanging", *(["--topic", topic] if topic else [])]
    return {
        "topic": topic, "minutes": minutes, "rows": hanging(asked.connected, topic, minutes),
        "command_words": [*command, "--max-transaction-timeout", str(minutes)],
    }  # fmt: skip


def load_producers(asked: PageRequest) -> Values:
    partition = _partition(asked)
    return {"partition": partition, "rows": producers_of(asked.connected, partition)}


def load_abort(asked: PageRequest) -> Values:
    partition = _partition(asked)
    return {
        "plan": plan_abort(asked.connected, partition, asked.number("start", -1)),
        "now": now_ms(),
    }


def abort(asked: PageRequest) -> str:
    """Abort what the plan of this address shows now."""
    plan = plan_abort(asked.connected, _partition(asked), asked.number("start", -1))
    execute_abort(asked.connected, plan)
    topic, index = plan.partition
    done = f"The transaction was aborted in {plan.partition}."
    return link("/producers", topic=topic, partition=index, done=done)


def _partition(asked: PageRequest) -> TopicPartition:
    return TopicPartition(asked.needed("topic"), asked.number("partition", 0))


def _command(states: list[str]) -> list[str]:
    return ["transactions", "list", *(word for state in states for word in ("--state", state))]


PAGE = Page("/transactions", "transactions.html", "transactions", load, live_ms=3_000)
ONE = Page("/transaction", "transaction.html", "transactions", load_one, live_ms=2_000)
HANGING = Page("/transactions/hanging", "transactions-hanging.html", "transactions", load_hanging)
PRODUCERS = Page("/producers", "producers.html", "transactions", load_producers, live_ms=3_000)
ABORT = Page(
    "/transactions/abort", "transaction-abort.html", "transactions", load_abort, change=abort
)
