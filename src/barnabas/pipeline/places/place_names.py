"""The meaning of a place's name: a folder of a mounted disk, or a URI of a store."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from barnabas.pipeline.options import SCHEME

NO_RENAME = (
    "a batch is a folder that is renamed in one step, which object stores cannot do; delta and iceberg tables"
    " may be there"
)
"""Why a Parquet table is in no store."""


def is_in_store(place: str) -> bool:
    """Whether the place is a URI of a store, not a folder that is mounted."""
    return SCHEME.match(place) is not None and not place.lower().startswith("file:")


def as_folder(place: str) -> str:
    """A URI of a store as it is, else the path of the folder."""
    if is_in_store(place) or SCHEME.match(place) is None:
        return place.rstrip("/") or place
    return unquote(urlsplit(place).path)
