"""The beginning of each leader epoch, as the batches of a log say it in their order.

Leader epochs never descend in a sound log, and no CRC covers them: a batch whose epoch does not fit those
around it has rotted, and is ignored (what is served is held to its neighbours by
:mod:`barnabas.log.segments.segment`). A batch above its successors has risen, one below its neighbours has
fallen; where the log ends right behind, the one is believed that more than one batch vouches for.
"""

from __future__ import annotations


class EpochRuns:
    """Gets each batch; `runs` says what they were."""

    __slots__ = ("_alone", "_below", "_latest", "_runs", "descend")

    def __init__(self) -> None:
        self.descend = False
        """Epochs descended: the caller has to find the batch that rotted."""
        self._runs: list[tuple[int, int]] = []
        self._latest = -1
        """Epoch of the last run."""
        self._alone = False
        """Whether the last run has one batch so far."""
        self._below: tuple[int, int] | None = None
        """The batch before this one, where it was below the last run."""

    def assign(self, epoch: int, offset: int) -> None:
        """The next batch begins at `offset`."""
        if epoch == self._latest:
            self._alone, self._below = False, None
        elif epoch > self._latest:
            self._runs.append((epoch, offset))
            self._latest, self._alone, self._below = epoch, True, None
        elif self._below is None:
            self._below, self.descend = (epoch, offset), True
        else:
            self._runs = _without_risen(self._runs, self._below[0])
            self._latest, self._alone, self._below = self._runs[-1][0], False, None
            self.assign(epoch, offset)

    def runs(self) -> list[tuple[int, int]]:
        """(epoch, offset of its first batch), each above the one before."""
        if self._below is not None and self._alone:
            return _without_risen(self._runs, self._below[0])
        return list(self._runs)


def _without_risen(runs: list[tuple[int, int]], epoch: int) -> list[tuple[int, int]]:
    """`epoch` continues behind runs of higher epochs: those had rotted, so drop them."""
    kept = [run for run in runs if run[0] <= epoch]
    if not kept or kept[-1][0] < epoch:
        kept.append((epoch, runs[len(kept)][1]))
    return kept
