"""How hard the property tests try: all examples in `make sim`, three of ten in `make test`, a twentieth in
`make check`."""

from __future__ import annotations

import os

SHARE = float(os.environ.get("BARNABAS_EFFORT", "1"))


def examples(count: int) -> int:
    """`count` examples, or the share of them that is asked for; at least five."""
    return max(5, round(count * SHARE))
