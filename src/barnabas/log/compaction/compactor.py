"""Runs a cleaning pass in this process or in a helper process.

A pass is one `begin`, which builds the offset map, and one `clean` per group of segments. Both compactors run
the code of :mod:`barnabas.log.compaction.cleaning_pass` and write the same bytes. With the extra ``[fast]``
the helper uses a compiled offset map; loading that would block the node, so the node's own process does not
use it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

from barnabas.log.compaction import cleaning_pass
from barnabas.log.compaction.compaction_rules import OffsetMap, TransactionTrail
from barnabas.log.errors import CorruptLogError
from barnabas.ports import Disk, Helper, HelperDied

SERVICE = __name__


class Compactor(Protocol):
    """One cleaning pass. Its methods block, and raise :class:`CorruptLogError`, ``OSError``,
    :class:`barnabas.ports.HelperDied`."""

    def begin(self, plan: cleaning_pass.CleaningPlan, keys_max: int) -> int:
        """Read the dirty part into the offset map. Returns the offset up to which the map is complete."""

    def clean(self, group: list[cleaning_pass.SourceSegment]) -> cleaning_pass.Cleaned:
        """Rewrite the segments of `group`. The caller passes groups in the order of their offsets."""


class LocalCompactor:
    """Cleans in this process."""

    def __init__(self, make_map: Callable[[int], OffsetMap] = OffsetMap) -> None:
        self._make_map = make_map
        self._plan: cleaning_pass.CleaningPlan
        self._offset_map = OffsetMap(0)
        self._trail = TransactionTrail()

    def begin(self, plan: cleaning_pass.CleaningPlan, keys_max: int) -> int:
        self._plan = plan
        self._offset_map = cleaning_pass.build_map(plan, keys_max, self._make_map)
        self._trail = cleaning_pass.trail_of(plan)
        return self._offset_map.end

    def clean(self, group: list[cleaning_pass.SourceSegment]) -> cleaning_pass.Cleaned:
        return cleaning_pass.clean_group(self._plan, group, self._offset_map, self._trail)


class HelpedCompactor:
    """Cleans in the helper process."""

    def __init__(self, helper: Helper) -> None:
        self._helper = helper

    def begin(self, plan: cleaning_pass.CleaningPlan, keys_max: int) -> int:
        return cast("int", self._call("begin", plan._replace(disk=cast("Disk", None)), keys_max))

    def clean(self, group: list[cleaning_pass.SourceSegment]) -> cleaning_pass.Cleaned:
        return cast("cleaning_pass.Cleaned", self._call("clean", group))

    def _call(self, method: str, *arguments: object) -> object:
        import pickle  # takes milliseconds to load; a node that compacts nothing does not need it

        answer = pickle.loads(self._helper.call(SERVICE, pickle.dumps((method, *arguments))))
        if isinstance(answer, PassUnknown):
            raise HelperDied("it ended before the next step of the round")
        if isinstance(answer, CorruptReport):
            raise CorruptLogError(answer.path, answer.position, answer.why)
        if isinstance(answer, Exception):
            raise answer
        return answer


class CorruptReport:
    """A :class:`CorruptLogError` in a form that can be pickled."""

    def __init__(self, error: CorruptLogError) -> None:
        self.path, self.position, self.why = error.path, error.position, error.why


class PassUnknown:
    """The answer of a helper to the second step of a pass of which another process did the first."""


def serve(disk: Disk, secret: bytes) -> Callable[[bytes], bytes]:
    """The helper's side: a function that answers requests of `HelpedCompactor`. `secret` are random bytes for
    the offset map's hash."""
    return answering(disk, _best_map(secret))


def answering(disk: Disk, make_map: Callable[[int], OffsetMap]) -> Callable[[bytes], bytes]:
    """A function that serves as `serve` does, with offset maps made by `make_map`."""
    import pickle

    compactor = LocalCompactor(make_map)
    has_begun = False

    def answer(request: bytes) -> bytes:
        nonlocal has_begun
        method, *arguments = pickle.loads(request)
        if method == "begin":
            arguments[0] = arguments[0]._replace(disk=disk)
            has_begun = True
        elif not has_begun:
            return pickle.dumps(PassUnknown())
        result: Any
        try:
            result = getattr(compactor, method)(*arguments)
        except CorruptLogError as error:
            result = CorruptReport(error)
        except OSError as error:
            result = error
        return pickle.dumps(result)

    return answer


def _best_map(secret: bytes) -> Callable[[int], OffsetMap]:
    try:
        from barnabas.log.compaction import compiled_offset_map
    except (ImportError, RuntimeError):  # RuntimeError: no directory can hold the compiled code
        return OffsetMap
    if not compiled_offset_map.available():
        return OffsetMap
    compiled_offset_map.warm_up()
    return partial(compiled_offset_map.CompiledOffsetMap, secret=secret)
