"""A feature's level moves only where a client asked for that level, and every registered node supports it;
metadata.version never goes down past a level that brought records which an older node cannot read."""

from __future__ import annotations

from barnabas.metadata import features as levels
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.sim.checkers.metadata_records import RecordRule
from barnabas.sim.history import History, Violation
from barnabas.wire.schema import Message


class FinalizedLevels(RecordRule):
    KINDS = (FeatureLevelRecord,)

    def __init__(self, history: History) -> None:
        self._history = history

    def on_record(self, image: MetadataImage, offset: int, record: Message) -> None:
        assert isinstance(record, FeatureLevelRecord)
        name, level = record.name, record.feature_level
        where = f"metadata offset {offset}: {name} goes to {level}"
        if not image.brokers:
            return  # what the cluster was formatted with
        if (name, level) not in self._history.levels_asked:
            raise Violation(f"{where}, and no client asked for that")
        for broker in image.brokers.values():
            if level and level not in broker.features.get(name, ()):
                raise Violation(f"{where}, which broker {broker.id} does not support")
        if name == levels.METADATA_VERSION:
            before = image.metadata_version
            if level < before and levels.loses_metadata(before, level):
                raise Violation(f"{where} from {before}: metadata are lost")
