"""Who has a node id, in words: where, and since when in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from barnabas.metadata.image.registrations import (
    DATES_END_MS,
    BrokerRegistration,
    ControllerRegistration,
    ListenerEndpoint,
    holder_of_broker_id,
    holder_of_controller_id,
)
from barnabas.types import ZERO_UUID

HERE = {"CONTROLLER": ListenerEndpoint("h", 1)}


@pytest.mark.slow
def test_dates_are_those_of_the_calendar() -> None:
    first = datetime(1970, 1, 1, 23, 59, 58, tzinfo=UTC)
    days = [*range(366 * 5), *range(10_000, 2_900_000, 997), 47_540, 47_541, 2_932_896]
    for at in (first + timedelta(days=day) for day in days):
        ms = round(at.timestamp() * 1000)
        held = holder_of_controller_id(ControllerRegistration(1, ZERO_UUID, False, HERE, {}, ms))
        assert held == (
            "the controller at CONTROLLER://h:1, registered since"
            f" {at.year:04}-{at:%m-%d %H:%M:%S} UTC"
        )


def test_a_record_without_a_date_names_its_offset() -> None:
    held = holder_of_broker_id(BrokerRegistration(1, 77, ZERO_UUID, HERE, rack="r"))
    assert held == (
        "the broker at CONTROLLER://h:1 in rack r, registered since offset 77 of the metadata log"
    )
    assert holder_of_broker_id(None) == ""
    for ms in (-1, DATES_END_MS):
        odd = ControllerRegistration(1, ZERO_UUID, False, HERE, {}, ms)
        assert holder_of_controller_id(odd) == "the controller at CONTROLLER://h:1, registered"
