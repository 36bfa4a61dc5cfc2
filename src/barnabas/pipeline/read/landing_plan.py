"""The plan of a reading task that writes a table's files, as one option of the reader."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.option_names import LAND

LANDED = "_staged/landed"
"""Below the table: files that no batch has yet."""
PARTS = ("topic", "partition")
"""Columns by which such a table may be partitioned: a range has one value of each."""


@dataclass(frozen=True, slots=True)
class LandingPlan:
    """`table` is a folder that driver and executors share, `schema` that of the rows, as JSON of Spark's."""

    table: str
    schema: str
    good_only: bool = False
    """Whether values that cannot be decoded are left out."""
    partition_by: tuple[str, ...] = ()
    keeps_parts: bool = False
    """Whether files have the columns of `partition_by` too: Iceberg's do."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LandingPlan:
        """The plan of `to_json`. Raises `OptionError` for other text."""
        try:
            found = json.loads(text)
            return cls(**{**found, "partition_by": tuple(found["partition_by"])})
        except (ValueError, TypeError, KeyError) as error:
            raise OptionError(
                f"option {LAND} is the plan that barnabas.pipeline.jobs.landing.land makes, and not for"
                " callers; a job has land = true in its sink"
            ) from error
