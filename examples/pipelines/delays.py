"""The function of dead_letters.toml: DataFrame -> DataFrame, as any function of Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def late(flights: DataFrame) -> DataFrame:
    """Flights with a delay, keyed by carrier. Bad values are not among them: they are dead letters."""
    return flights.where("data.delay > 0").selectExpr(
        "data.carrier as key", "to_json(struct(data.id, data.delay)) as value"
    )
