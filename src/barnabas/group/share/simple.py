"""The assignor `simple`: partitions have equal numbers of members, and members equal numbers of
partitions.

If there are more members than partitions, several members share one. If all members subscribe to
the same topics, they are balanced over all topics together; else each topic is balanced over its
subscribers. A member keeps its partitions as far as the balance allows.

Source: ``SimpleAssignor`` of Apache Kafka 4.3; KIP-932.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from barnabas.group.share.share_group import Target
from barnabas.types import Uuid

Place = tuple[Uuid, int]


def assign_simply(
    subscriptions: Mapping[str, frozenset[Uuid]],
    partitions: Mapping[Uuid, Iterable[int]],
    previous: Mapping[str, Target],
) -> dict[str, Target]:
    """Compute a target for every member of `subscriptions` out of `partitions`, which may be
    assigned."""
    had = {
        member_id: {
            (topic_id, partition)
            for topic_id, own in (previous.get(member_id) or {}).items()
            for partition in own
        }
        for member_id in subscriptions
    }
    got: dict[str, list[Place]] = {member_id: [] for member_id in subscriptions}
    topics = {topic_id for ids in subscriptions.values() for topic_id in ids}
    wanted = [(topic_id, sorted(partitions.get(topic_id, ()))) for topic_id in sorted(topics)]
    if len(set(subscriptions.values())) == 1:
        places = [(topic_id, partition) for topic_id, own in wanted for partition in own]
        _balance(places, sorted(subscriptions), had, got)
    else:
        for topic_id, own in wanted:
            members = sorted(m for m, ids in subscriptions.items() if topic_id in ids)
            _balance([(topic_id, partition) for partition in own], members, had, got)
    return {member_id: _target(places) for member_id, places in got.items()}


def _balance(
    places: Sequence[Place],
    members: Sequence[str],
    had: Mapping[str, set[Place]],
    got: dict[str, list[Place]],
) -> None:
    """Give each of `members` a balanced part of `places`."""
    if not places or not members:
        return
    sharing = -(-len(members) // len(places))
    total, among = sharing * len(places), len(members)
    counts = dict.fromkeys(places, 0)
    room: dict[str, int] = {}
    taken: dict[str, set[Place]] = {}
    for number, member_id in enumerate(members):
        share = total * (number + 1) // among - total * number // among
        kept = [place for place in places if place in had[member_id] and counts[place] < sharing]
        kept = kept[:share]
        for place in kept:
            counts[place] += 1
        taken[member_id] = set(kept)
        room[member_id] = share - len(kept)
    open_members = [member_id for member_id in members if room[member_id]]
    for place in sorted(places, key=counts.__getitem__):
        while counts[place] < sharing:
            found = next((m for m in open_members if place not in taken[m]), None)
            if found is None:
                break
            taken[found].add(place)
            counts[place] += 1
            room[found] -= 1
            open_members.remove(found)
            if room[found]:
                open_members.append(found)
    for place in places:
        if not counts[place]:  # else no member would get its records
            least = min(members, key=lambda member_id: (len(taken[member_id]), member_id))
            taken[least].add(place)
    for member_id in members:
        got[member_id] += sorted(taken[member_id])


def _target(places: Iterable[Place]) -> Target:
    target: dict[Uuid, set[int]] = {}
    for topic_id, partition in places:
        target.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(own) for topic_id, own in target.items()}
