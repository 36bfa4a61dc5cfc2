"""The simulated background threads of a process: each queue runs its jobs in order, in virtual time.

Whatever real threads may do to the node happens here:

- Jobs of different queues overtake each other.
- A job hangs while jobs of other queues continue.
- The node learns of a job's end long after it, or only when the next job of the queue has ended too.
- A job runs step by step while the node does other things (:mod:`barnabas.sim.world.stepping`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.sim.world.stepping import SteppedJob
from barnabas.sim.world.world import Killed

if TYPE_CHECKING:
    from barnabas.sim.world.process import SimProcess

T = TypeVar("T")
SYNC_MS_MAX = 1.5
"""The longest sync of a disk that no fault slows down."""
HANG_RATES = (0.0, 0.0, 0.0, 0.01, 0.1)
HANG_MS = (10.0, 100.0, 600.0)
"""Probability that a job hangs, drawn for each queue of each process, and for how long the job hangs."""
LATE_RATES = (0.0, 0.0, 0.3, 1.0)
"""Probability that the node learns of a job's end late, not soon; drawn for each process."""
EAGER_RATES = (0.0, 0.0, 0.5)
"""Probability that the next job of a queue runs before the node has used the result of the former one; drawn
for each process."""
STEP_RATES = (0.0, 0.0, 0.03, 0.2)
"""Probability that a job runs step by step while the node does other things; drawn for each process."""
STOP_RATES = (0.1, 0.5, 1.0)
"""Probability that a stepped job stops before a call on the disk; drawn for each job."""
STEP_MS = (0.1, 2.0, 20.0)
"""The longest pause between two steps; drawn for each job."""


class SimBackground:
    """``ports.Background`` of one process."""

    def __init__(self, process: SimProcess) -> None:
        self._process = process
        self._rng = process.rng("background")
        self._queues: dict[str, deque[tuple[Callable[[], Any], Callable[[Any], None]]]] = {}
        self._brevity = process.rng("brevity")
        self._brief_rate = self._brevity.choice((0.0, 0.9, 1.0))
        """Probability that a job given to `run_brief` runs at once; drawn for each process."""
        self._pace = pace = process.rng("pace")
        differs = process.machine.lives_differ
        self._late_rate = pace.choice(LATE_RATES) if differs else 0.0
        self._eager_rate = pace.choice(EAGER_RATES) if differs else 0.0
        self._step_rate = pace.choice(STEP_RATES) if differs else 0.0
        self._stop_rates: tuple[float, ...] = STOP_RATES
        self.stopped: list[SteppedJob] = []
        """Jobs that continue later."""
        self._hang_rates: dict[str, float] = {}
        """The rate of hangs of each queue."""

    def is_busy(self, queue: str) -> bool:
        """Whether a job of `queue` runs or waits."""
        return bool(self._queues.get(queue))

    def run_brief(
        self, queue: str, job: Callable[[], T], done: Callable[[T | BaseException], None]
    ) -> None:
        """Run `job` at once or as `run` does. Some processes run most of these jobs at once, others none. A
        crash may come before a job and after it."""
        process = self._process
        is_slow = process.machine.sync_ms_max > SYNC_MS_MAX
        if is_slow or self._queues.get(queue) or self._brevity.random() >= self._brief_rate:
            self.run(queue, job, done)
            return
        if not process.alive:
            return
        result: Any
        try:
            result = job()
        except Exception as error:  # noqa: BLE001 - it goes to the caller
            result = error
        done(result)

    def run(
        self, queue: str, job: Callable[[], T], done: Callable[[T | BaseException], None]
    ) -> None:
        waiting = self._queues.setdefault(queue, deque())
        waiting.append((job, done))
        if len(waiting) == 1:
            self._schedule(queue)

    def _schedule(self, queue: str) -> None:
        """Draw when the first job of `queue` runs, and how long after that the node learns of its end."""
        process, pace = self._process, self._pace
        takes_ms = self._rng.uniform(0.02, process.machine.sync_ms_max)
        heard_ms = self._rng.uniform(0.0, 0.1)
        hang_rate = self._hang_rate(queue)
        if hang_rate and pace.random() < hang_rate:
            takes_ms += pace.choice(HANG_MS)
        if self._late_rate and pace.random() < self._late_rate:
            takes_ms, heard_ms = heard_ms, takes_ms
        perform = partial(self._perform, queue, heard_ms)
        process.world.after(takes_ms, partial(process.run, perform))

    def _hang_rate(self, queue: str) -> float:
        rate = self._hang_rates.get(queue)
        if rate is None:
            differs = self._process.machine.lives_differ
            rate = self._hang_rates[queue] = self._pace.choice(HANG_RATES) if differs else 0.0
        return rate

    def _perform(self, queue: str, heard_ms: float) -> None:
        job, done = self._queues[queue][0]
        finish = partial(self._end, queue, done, heard_ms)
        if self._step_rate and self._pace.random() < self._step_rate:
            step_ms, stop_rate = self._pace.choice(STEP_MS), self._pace.choice(self._stop_rates)
            self._resume(SteppedJob(job), step_ms, stop_rate, finish)
            return
        try:
            result: Any = job()
        except Exception as error:  # noqa: BLE001 - it goes to the caller
            result = error
        finish(result)

    def _end(
        self, queue: str, done: Callable[[Any], None], heard_ms: float, result: object
    ) -> None:
        """A job has ended with `result`; the node learns that after `heard_ms`."""
        process = self._process
        finish = partial(self._finish, queue, done, result)
        process.world.after(heard_ms, partial(process.run, finish))

    def _resume(
        self, job: SteppedJob, step_ms: float, stop_rate: float, finish: Callable[[object], None]
    ) -> None:
        """Let `job` run until it stops again."""
        process, random = self._process, self._pace.random

        def maybe_stop() -> None:
            if random() < stop_rate:
                job.stop()

        device = process.machine.disk
        if job in self.stopped:
            self.stopped.remove(job)
        with device.hooks.interrupting(maybe_stop):
            job.resume()
        if isinstance(job.result, Killed):
            raise job.result
        if job.is_over:
            finish(job.result)
        elif process.alive:
            self.stopped.append(job)
            again = partial(self._resume, job, step_ms, stop_rate, finish)
            process.world.after(random() * step_ms, partial(process.run, again))
        else:
            job.unwind()

    def unwind(self) -> None:
        """The process is dead: end its stepped jobs where they stopped."""
        device = self._process.machine.disk
        with device.hooks.interrupting(None):
            while self.stopped:
                self.stopped.pop().unwind()

    def _finish(self, queue: str, done: Callable[[Any], None], result: Any) -> None:
        waiting = self._queues[queue]
        waiting.popleft()
        if waiting:
            if self._eager_rate and self._pace.random() < self._eager_rate:
                self._perform(queue, self._rng.uniform(0.0, 0.1))
            else:
                self._schedule(queue)
        done(result)
