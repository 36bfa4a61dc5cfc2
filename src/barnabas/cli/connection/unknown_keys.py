"""Keys of a properties file that no node reads: the warning for a person, with the key probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.config.node import NodeConfig


def sentences_on_unknown(config: NodeConfig) -> list[str]:
    """One per key. Such keys are kept and do nothing, as in Apache Kafka."""
    return [
        f"warning: no node reads the key {name}" + (f"; did you mean {near}?" if near else "")
        for name, near in config.unknown_keys().items()
    ]
