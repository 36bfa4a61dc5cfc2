"""Which versions the clients of a seed speak: the newest, as other libraries do, or older ones at random.

Before Produce 13, Fetch 13, OffsetCommit 10 and OffsetFetch 10 topics go by name: who asks may mean a
former one of that name, or the one that is there now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from barnabas.client.network.legacy_requests import Newest
from barnabas.ports import Rng
from barnabas.sim.workload.workload import WorkloadPlan
from barnabas.wire.api_table import API_SCHEMAS, ApiKey

OLDEST: Newest = {
    ApiKey.PRODUCE: 3,
    ApiKey.FETCH: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.METADATA: 4,  # no client creates topics by asking for them
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 2,
    ApiKey.FIND_COORDINATOR: 0,
    ApiKey.JOIN_GROUP: 1,
    ApiKey.HEARTBEAT: 0,
    ApiKey.LEAVE_GROUP: 0,
    ApiKey.SYNC_GROUP: 0,
    ApiKey.INIT_PRODUCER_ID: 0,
}
LIBRDKAFKA: Newest = {
    ApiKey.PRODUCE: 10,
    ApiKey.FETCH: 11,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.JOIN_GROUP: 5,
    ApiKey.HEARTBEAT: 3,
    ApiKey.LEAVE_GROUP: 1,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.INIT_PRODUCER_ID: 4,
}
BY_NAME: Newest = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
}
IDS_SINCE = 10
"""From this version on Metadata tells topics' ids."""
STATIC_SINCE = {
    ApiKey.JOIN_GROUP: 5,
    ApiKey.HEARTBEAT: 3,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.OFFSET_COMMIT: 7,
}
"""Before these a member has no instance id (KIP-345)."""


def draw(rng_of: Callable[[str], Rng], plan: WorkloadPlan) -> Mapping[str, Newest]:
    """The newest versions that each client speaks, in one seed of four."""
    if rng_of("older clients").random() >= 0.25:
        return {}
    static = {consumer.name for consumer in plan.consumers if consumer.is_static}
    found: dict[str, Newest] = {}
    for name in plan.names:
        rng = rng_of(f"{name} speaks")
        kinds: Sequence[Newest] = ({}, LIBRDKAFKA, LIBRDKAFKA, BY_NAME, OLDEST, _any(rng))
        bounds = dict(rng.choice(kinds))
        for key, least in STATIC_SINCE.items() if name in static else ():
            if key in bounds:
                bounds[key] = max(bounds[key], least)
        found[name] = bounds
    return found


def _any(rng: Rng) -> Newest:
    bounds = {
        key: rng.randrange(least, API_SCHEMAS[key].max_stable_version + 1)
        for key, least in OLDEST.items()
    }
    if bounds[ApiKey.METADATA] < IDS_SINCE:  # a client that learns no topic ids asks by name
        bounds |= {key: min(bounds[key], highest) for key, highest in BY_NAME.items()}
    return bounds
