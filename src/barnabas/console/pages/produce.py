"""Writes one record. Only the form has its content, never an address.

A client of its own writes it: a record that is not acknowledged in time is given up with the
client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.console.cluster_views.new_record import FORMS, record_in, write
from barnabas.console.pages.page import Page, PageRequest
from barnabas.console.rendering import link


def load(asked: PageRequest) -> Mapping[str, Any]:
    name = asked.needed("topic")
    view = asked.connected.topic(name)
    only = asked.number("partition", -1)
    partition = ["--partition", str(only)] if only >= 0 else []
    return {
        "topic": name, "indexes": sorted(view.partitions), "partition": only, "forms": FORMS,
        "command_words": ["produce", name, *partition],
    }  # fmt: skip


def produce(asked: PageRequest) -> str:
    """Write the form's record; returns the address of the page that shows it."""
    name = asked.needed("topic")
    view = asked.connected.topic(name)
    record = record_in(name, asked.form)
    if record.partition is not None and record.partition not in view.partitions:
        raise ValueError(f"topic {name} has no partition {record.partition}")
    client = asked.user.pool.new_client()
    try:
        delivery = write(client, record)
    finally:
        client.close()
    return link(
        "/records", topic=name, partition=delivery.partition, from_="offset", at=delivery.offset,
        n=1, done=f"The record has offset {delivery.offset} in partition {delivery.partition}.",
    )  # fmt: skip


PAGE = Page("/produce", "produce.html", "topics", load, change=produce)
