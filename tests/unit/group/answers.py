"""Answers to group requests as one short line each, for scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.group.consumer.conversion.embedded import read_assignment
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode

Alias = Callable[[str], str]
"""A member id in its short form."""


class Client:
    def __init__(self, name: str) -> None:
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.group = "g"
        self.instance: str | None = None
        self.options: dict[str, str] = {}
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}
        """What it was assigned last, by topic."""
        self.names: dict[Uuid, str] = {}
        """Topics that it may hear of, by id."""


def assignment_text(data: bytes) -> str:
    """An assignment of a script's leader is plain text, one of the coordinator is the protocol's."""
    data = bytes(data)
    if data[:1] != b"\0":
        return data.decode()
    found = read_assignment(data).assigned_partitions
    return " ".join(f"{part.topic}/{p}" for part in found for p in part.partitions)


def tell_code(client: Client, answer: Any, alias: Alias) -> list[str]:
    return [f"{client.name} {name(answer.error_code)}"]


def tell_join(client: Client, answer: Any, alias: Alias) -> list[str]:
    code = ErrorCode(answer.error_code)
    if code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
        client.member_id = answer.member_id
    if code is not ErrorCode.NONE:
        shown = f" {alias(answer.member_id)}" if answer.member_id else ""
        return [f"{client.name} join {code.name}{shown}"]
    client.generation = answer.generation_id
    client.options["chosen"] = answer.protocol_name
    members = ",".join(alias(m.member_id) for m in answer.members)
    return [
        f"{client.name} joined as {alias(answer.member_id)}, generation"
        f" {answer.generation_id}, {answer.protocol_name}, leader {alias(answer.leader)}"
        + (f", members {members}" if members else "")
        + (", skip assignment" if answer.skip_assignment else "")
    ]


def tell_sync(client: Client, answer: Any, alias: Alias) -> list[str]:
    if answer.error_code:
        return [f"{client.name} sync {name(answer.error_code)}"]
    data = bytes(answer.assignment)
    client.owned = {}
    if data[:1] == b"\0":
        found = read_assignment(data).assigned_partitions
        client.owned = {part.topic: list(part.partitions) for part in found}
    return [f"{client.name} assigned {assignment_text(data) or 'nothing'}"]


def tell_leave(client: Client, answer: Any, alias: Alias) -> list[str]:
    codes = [answer.error_code, *(member.error_code for member in answer.members)]
    return [f"{client.name} left: {' '.join(name(code) for code in codes)}"]


def tell_commit(client: Client, answer: Any, alias: Alias) -> list[str]:
    return [
        f"{client.name} {topic.name}/{part.partition_index} {name(part.error_code)}"
        for topic in answer.topics
        for part in topic.partitions
    ]


def tell_fetch(client: Client, answer: Any, alias: Alias) -> list[str]:
    lines = []
    for group in answer.groups:
        if group.error_code:
            lines.append(f"{group.group_id} {name(group.error_code)}")
        lines += [
            f"{group.group_id} {topic.name}/{part.partition_index}: {part.committed_offset}"
            + (f" {name(part.error_code)}" if part.error_code else "")
            for topic in group.topics
            for part in topic.partitions
        ]
        if not group.error_code and not group.topics:
            lines.append(f"{group.group_id} nothing")
    return lines


def tell_delete_offsets(client: Client, answer: Any, alias: Alias) -> list[str]:
    if answer.error_code:
        return [name(answer.error_code)]
    return [
        f"{topic.name}/{part.partition_index} {name(part.error_code)}"
        for topic in answer.topics
        for part in topic.partitions
    ]


def tell_delete(client: Client, answer: Any, alias: Alias) -> list[str]:
    return [f"{result.group_id} {name(result.error_code)}" for result in answer.results]


def tell_list(client: Client, answer: Any, alias: Alias) -> list[str]:
    if answer.error_code:
        return [name(answer.error_code)]
    return [
        f"{group.group_id} {group.group_state} {group.protocol_type or '-'} {group.group_type}"
        for group in answer.groups
    ]


def tell_describe(client: Client, answer: Any, alias: Alias) -> list[str]:
    return [
        f"{group.group_id} {group.group_state} {name(group.error_code)}"
        f" {group.protocol_type or '-'}/{group.protocol_data or '-'}:"
        f" {' '.join(alias(m.member_id) + '@' + m.client_host for m in group.members)}"
        for group in answer.groups
    ]


TELL: dict[str, Callable[[Client, Any, Alias], list[str]]] = {
    "join": tell_join,
    "sync": tell_sync,
    "leave": tell_leave,
    "commit": tell_commit,
    "fetch": tell_fetch,
    "delete-offsets": tell_delete_offsets,
    "delete": tell_delete,
    "list": tell_list,
    "describe": tell_describe,
}


def name(code: int) -> str:
    return ErrorCode(code).name
