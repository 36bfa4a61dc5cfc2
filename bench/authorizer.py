"""What a decision of the authorizer costs on the produce path, in processor time.

Usage: ``python -m bench.authorizer [--rounds 7]``. A Produce request of ten topics passes the guard of its
API; per topic: decisions that are remembered, and decisions that are made, among ten and among 100,000 ACLs.
Prints medians with the spread, and writes them to ``bench/results/authorizer.txt``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from barnabas.broker.handlers.produce import API
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.security.authorization.access_rules import guard
from barnabas.security.authorization.acls import AclResourceType, Operation, PatternType
from barnabas.security.authorization.authorizer import Authorizer
from barnabas.security.authorization.broker_access import BROKER_RULES
from barnabas.types import Endpoint, Uuid
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.messages.produce_response import ProduceResponse
from barnabas.wire.request import RequestContext
from bench.systems import ROOT

TOPICS = 10
REQUESTS = 3_000
USERS = 1_000
CTX = RequestContext(
    api_key=int(API.key), api_version=9, principal="User:u7", peer=Endpoint("10.0.0.1", 40_000)
)


def entries(number: int) -> Iterator[AccessControlEntryRecord]:
    """Two users of each topic, and one prefix in a hundred; user 7 may write ``t7-*``."""
    for at in range(number):
        prefixed = at % 100 == 7
        yield AccessControlEntryRecord(
            id=Uuid(at.to_bytes(16, "big")),
            resource_type=AclResourceType.TOPIC,
            resource_name=f"t{at}-" if prefixed else f"t{at // 2}",
            pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
            principal=f"User:u{at % USERS}",
            host="*",
            operation=Operation.WRITE,
            permission_type=3,
        )


def produce_with(authorizer: Authorizer | None) -> Callable[[Any], object]:
    """What a Produce request goes through: the guard, and a handler that does nothing."""
    table = ApiTable()
    answer = ProduceResponse(responses=[])
    table.add_handler(API, lambda request, ctx, role: answer, None)
    if authorizer is not None:
        guard(table, {API.key: BROKER_RULES[API.key]}, authorizer)
    entry = table.get(API.key)
    assert entry is not None
    return lambda request: entry.handle(request, CTX, None)


def request(names: list[str]) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        topic_data=[
            TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0)])
            for name in names
        ],
    )


def microseconds(produce: Callable[[Any], object], requests: list[ProduceRequest]) -> float:
    """Processor time per topic."""
    began = time.process_time()
    for each in requests:
        produce(each)
    return (time.process_time() - began) * 1e6 / len(requests) / TOPICS


def measure(acls: int, rounds: int) -> dict[str, list[float]]:
    image = MetadataImage()
    image.replay_batch(list(entries(acls)), 0, 1)
    authorizer = Authorizer(image)
    guarded, open_ = produce_with(authorizer), produce_with(None)
    names = count()
    found: dict[str, list[float]] = {}
    same = [request([f"t7-{number}" for number in range(TOPICS)])] * REQUESTS
    microseconds(guarded, same)
    for _ in range(rounds):
        others = [request([f"t7-n{next(names)}" for _ in range(TOPICS)]) for _ in range(REQUESTS)]
        for figure, requests in (("remembered", same), ("made", others)):
            extra = microseconds(guarded, requests) - microseconds(open_, requests)
            found.setdefault(f"{figure}, {acls:,} ACLs", []).append(extra)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    lines = [
        f"microseconds of processor time per topic of a Produce request, {options.rounds} rounds"
    ]
    for acls in (10, 100_000):
        for figure, values in measure(acls, options.rounds).items():
            spread = f"({min(values):.2f}-{max(values):.2f})"
            lines.append(f"decision {figure:28} {statistics.median(values):6.2f} {spread}")
    text = "\n".join(lines)
    print(text)
    (ROOT / "bench" / "results" / "authorizer.txt").write_text(text + "\n")


if __name__ == "__main__":
    main()
