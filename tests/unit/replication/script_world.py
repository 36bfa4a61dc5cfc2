"""The world of the replication scripts: replicas with logs in memory, driven by the machines alone.

A script is lines of commands; ``#`` begins a comment. Logs hold (epoch, value); a fetch goes from a
follower's :class:`FollowerState` to the leader's :class:`LeaderState` and back as the broker does it.

Commands::

    replicas 1 2 3 [min 2] [lag 1000]         the partition's replicas
    lead 1 epoch 0 isr 1 2 3                   the metadata: who leads, and the ISR
    isr 1 2                                    the metadata: another ISR, same leader
    no_leader epoch 3                          the metadata: no leader
    write 1 a b c                              the leader appends
    fetch 2 [from 1]                           one fetch round of follower 2
    catch up 2 [rounds 9]                      rounds until nothing more comes
    advance 500                                milliseconds pass
    shrink 1 -> 3                              leader 1 looks for laggards and asks to drop 3 (or: none)
    commit | refuse | lose                     what becomes of the pending proposal
    fence 3 | unfence 3                        eligibility for the ISR
    replace 3                                  another incarnation of broker 3 is registered
    restart 3                                  and fetches
    start 1 5                                  log start of replica 1 moves to 5
    netsplit 1 | heal                          metadata do not reach replica 1
    stale 1                                    the lost answer comes late: ignored
    expect hw 1 = 3                            high watermark of a replica
    expect log 2 = 0:a 0:b                     records as epoch:value (log start on)
    expect isr 1 = 1 2
    expect asked 1 = 1 2 3 | nothing           the ISR that is being asked for
    expect end 2 = 3
    expect error 2 = OUT_OF_RANGE              of the last fetch
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.replication.follower import (
    FollowerState,
    resolve_out_of_range,
    truncation_offset,
)
from barnabas.replication.leader import IsrProposal, LeaderState


class MemoryLog:
    """A replica's log: its records, and where each epoch begins."""

    def __init__(self) -> None:
        self.start = 0
        self.records: list[tuple[int, str]] = []
        self.high_watermark = 0
        self.epochs: list[tuple[int, int]] = []

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    @property
    def last_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def begin_epoch(self, epoch: int) -> None:
        if epoch > self.last_epoch:
            self.epochs.append((epoch, self.end))

    def append(self, epoch: int, value: str) -> None:
        self.begin_epoch(epoch)
        self.records.append((epoch, value))

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        if not self.epochs or epoch < 0 or epoch > self.last_epoch:
            return -1, -1
        found = [i for i, (known, _) in enumerate(self.epochs) if known <= epoch]
        if not found:
            return epoch, self.epochs[0][1]
        at = found[-1]
        end = self.end if at + 1 == len(self.epochs) else self.epochs[at + 1][1]
        return self.epochs[at][0], end

    def truncate(self, offset: int) -> None:
        del self.records[max(offset - self.start, 0) :]
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < self.end]
        self.high_watermark = min(self.high_watermark, self.end)

    def start_over_at(self, offset: int) -> None:
        self.start, self.records, self.epochs, self.high_watermark = offset, [], [], offset


class Fetched(NamedTuple):
    """A leader's answer to one follower."""

    error: str = ""
    diverging: tuple[int, int] | None = None
    records: tuple[tuple[int, str], ...] = ()
    high_watermark: int = -1
    log_start: int = -1


class ScriptWorld:
    """One partition, its replicas, and the controller's word."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.min_isr = 1
        self.lag_ms = 1000.0
        self.logs: dict[int, MemoryLog] = {}
        self.leaders: dict[int, LeaderState] = {}
        self.followers: dict[int, FollowerState] = {}
        self.leader = -1
        self.epoch = -1
        self.partition_epoch = 0
        self.isr: tuple[int, ...] = ()
        self.broker_epochs: dict[int, int] = {}
        """Of the incarnations that fetch; `registered`: as the metadata have them."""
        self.registered: dict[int, int] = {}
        self.fenced: set[int] = set()
        self.proposals: dict[int, IsrProposal] = {}
        self.errors: dict[int, str] = {}
        self.records_per_fetch = 1 << 30
        self.lost: dict[int, IsrProposal] = {}
        self.cut_off: set[int] = set()
        """Replicas that metadata do not reach."""

    # -- metadata and time ----------------------------------------------------------------------

    def _replicas(self, *words: str) -> None:
        ids, options = _split(words, ("min", "lag"))
        self.min_isr = int(options.get("min", ["1"])[0])
        self.lag_ms = float(options.get("lag", ["1000"])[0])
        for broker in map(int, ids):
            self.logs[broker] = MemoryLog()
            self.broker_epochs[broker] = self.registered[broker] = broker * 100

    def _lead(self, leader: str, *words: str) -> None:
        _, options = _split(words, ("epoch", "isr"))
        self.leader, self.epoch = int(leader), int(options["epoch"][0])
        self.isr = tuple(map(int, options["isr"]))
        self.partition_epoch += 1
        self._apply()

    def _no_leader(self, *words: str) -> None:
        _, options = _split(words, ("epoch",))
        self.leader, self.epoch = -1, int(options["epoch"][0])
        self.partition_epoch += 1
        self._apply()

    def _isr(self, *ids: str) -> None:
        self.isr = tuple(map(int, ids))
        self.partition_epoch += 1
        state = self.leaders[self.leader]
        state.on_metadata(self.partition_epoch, tuple(self.logs), self.isr, 0)
        self._advance_high_watermark(self.leader)

    def _apply(self) -> None:
        """Every replica that is not cut off learns the metadata."""
        for broker, log in self.logs.items():
            if broker in self.cut_off:
                continue
            if broker == self.leader:
                self.followers.pop(broker, None)
                log.begin_epoch(self.epoch)
                self.leaders[broker] = LeaderState(
                    broker, self.epoch, self.partition_epoch, tuple(self.logs), self.isr, 0,
                    log.end, self.now_ms,
                )  # fmt: skip
                self._advance_high_watermark(broker)
            else:
                self.leaders.pop(broker, None)
                self.proposals.pop(broker, None)
                if log.last_epoch < 0:
                    log.truncate(log.high_watermark)
                self.followers[broker] = FollowerState(self.epoch, log.end, log.last_epoch)

    def _netsplit(self, *ids: str) -> None:
        self.cut_off = set(map(int, ids))

    def _heal(self) -> None:
        self.cut_off = set()
        self._apply()

    def _write(self, leader: str, *values: str) -> None:
        broker = int(leader)
        state, log = self.leaders[broker], self.logs[broker]
        before = log.end
        for follower in state.followers.values():
            if follower.log_end_offset >= before:
                follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
        for value in values:
            log.append(state.epoch, value)
        self._advance_high_watermark(broker)

    def _advance(self, ms: str) -> None:
        self.now_ms += float(ms)

    # -- fetching --------------------------------------------------------------------------------

    def _fetch(self, follower: str, *words: str) -> None:
        _, options = _split(words, ("from",))
        leader = int(options["from"][0]) if options else self.leader
        self._round(int(follower), leader)

    def _catch(self, up: str, follower: str, *words: str) -> None:
        assert up == "up"
        for _ in range(20):
            before = (self.logs[int(follower)].end, self.logs[int(follower)].high_watermark)
            self._round(int(follower), self.leader)
            if (self.logs[int(follower)].end, self.logs[int(follower)].high_watermark) == before:
                return
        raise AssertionError("it never catches up")

    def _round(self, broker: int, leader: int, *, lost: bool = False) -> None:
        """One fetch; its answer may be lost on the way."""
        state, log = self.followers[broker], self.logs[broker]
        answer = self._serve(leader, broker, state)
        if lost:
            return
        self.errors[broker] = answer.error
        if answer.error == "OUT_OF_RANGE":
            theirs = self.logs[leader]
            action = resolve_out_of_range(log.end, log.end, theirs.start, theirs.end)
            if action.truncate_to is not None:
                log.truncate(action.truncate_to)
            elif action.start_at is not None:
                log.start_over_at(action.start_at)
        elif answer.error:
            return
        elif answer.diverging is not None:
            epoch, end = answer.diverging
            own_epoch, own_end = log.epoch_end(epoch)
            before = log.end
            log.truncate(
                truncation_offset(epoch, end, own_epoch, own_end, log.end, state.fetch_offset)
            )
            assert log.end < before or log.last_epoch < state.last_fetched_epoch, "no progress"
        else:
            for epoch, value in answer.records:
                log.append(epoch, value)
            log.high_watermark = max(log.high_watermark, min(answer.high_watermark, log.end))
        state.moved_to(log.end, log.last_epoch)

    def _serve(self, leader: int, broker: int, asked: FollowerState) -> Fetched:
        state, log = self.leaders.get(leader), self.logs[leader]
        if state is None:
            return Fetched("NOT_LEADER")
        if asked.leader_epoch != state.epoch:
            older = asked.leader_epoch < state.epoch
            return Fetched("FENCED" if older else "UNKNOWN_EPOCH")
        if not log.start <= asked.fetch_offset <= log.end and asked.last_fetched_epoch < 0:
            return Fetched("OUT_OF_RANGE")
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.epoch_end(asked.last_fetched_epoch)
            if end < 0 or asked.fetch_offset < log.start:
                return Fetched("OUT_OF_RANGE")
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                return Fetched(diverging=(epoch, end))
        if not log.start <= asked.fetch_offset <= log.end:
            return Fetched("OUT_OF_RANGE")
        follower = state.followers[broker]
        state.on_follower_fetch(
            follower, asked.fetch_offset, self.logs[broker].start, self.broker_epochs[broker],
            log.end, self.now_ms,
        )  # fmt: skip
        proposal = state.propose_expand(follower, log.high_watermark, self._eligible)
        if proposal is not None:
            self.proposals[leader] = proposal
        self._advance_high_watermark(leader)
        return Fetched(
            records=tuple(log.records[asked.fetch_offset - log.start :])[: self.records_per_fetch],
            high_watermark=log.high_watermark,
            log_start=log.start,
        )

    def _eligible(self, broker: int, epoch: int) -> bool:
        return broker not in self.fenced and epoch in (-1, self.registered[broker])

    def _advance_high_watermark(self, leader: int) -> None:
        state, log = self.leaders[leader], self.logs[leader]
        mark = state.high_watermark(log.end, self.min_isr, self.now_ms, self.lag_ms, self._eligible)
        if mark is not None and mark > log.high_watermark:
            log.high_watermark = mark

    # -- the ISR ---------------------------------------------------------------------------------

    def _shrink(self, leader: str, arrow: str, *ids: str) -> None:
        state, log = self.leaders[int(leader)], self.logs[int(leader)]
        before = state.isr
        proposal = state.propose_shrink(log.end, self.now_ms, self.lag_ms)
        gone = [] if proposal is None else [b for b in before if b not in proposal.isr]
        wanted = [] if ids == ("none",) else list(map(int, ids))
        assert gone == wanted, f"it asks to drop {gone}"
        if proposal is not None:
            self.proposals[int(leader)] = proposal

    def _commit(self) -> None:
        """The controller accepts what the leader asks."""
        (leader, proposal), *rest = self.proposals.items()
        assert not rest
        self.proposals.clear()
        self.partition_epoch += 1
        self.isr = proposal.isr
        state = self.leaders[leader]
        accepted = state.on_committed(
            proposal, state.epoch, self.partition_epoch, proposal.isr, proposal.recovery
        )
        assert accepted
        self._advance_high_watermark(leader)

    def _refuse(self) -> None:
        (leader, proposal), *_ = self.proposals.items()
        self.proposals.clear()
        assert self.leaders[leader].on_refused(proposal)
        self._advance_high_watermark(leader)

    def _lose(self) -> None:
        """The answer never comes."""
        self.lost = dict(self.proposals)
        self.proposals.clear()

    def _stale(self, leader: str) -> None:
        """The lost answer comes after all, and is ignored."""
        proposal = self.lost[int(leader)]
        state = self.leaders[int(leader)]
        assert not state.on_committed(
            proposal, proposal.leader_epoch, proposal.partition_epoch + 1, proposal.isr, 0
        )
        assert not state.on_refused(proposal)

    def _fence(self, broker: str) -> None:
        self.fenced.add(int(broker))

    def _unfence(self, broker: str) -> None:
        self.fenced.discard(int(broker))

    def _replace(self, broker: str) -> None:
        self.registered[int(broker)] += 1

    def _restart(self, broker: str) -> None:
        self.broker_epochs[int(broker)] = self.registered[int(broker)]

    def _start(self, broker: str, offset: str) -> None:
        log = self.logs[int(broker)]
        del log.records[: int(offset) - log.start]
        log.start = int(offset)
        log.epochs = [
            (epoch, max(start, log.start))
            for i, (epoch, start) in enumerate(log.epochs)
            if i + 1 == len(log.epochs) or log.epochs[i + 1][1] > log.start
        ]


class Expectations:
    """What a script may say of a world: each gives the words it has to match."""

    def __init__(self, world: ScriptWorld) -> None:
        self._world = world

    def hw(self, broker: int) -> list[str]:
        return [str(self._world.logs[broker].high_watermark)]

    def end(self, broker: int) -> list[str]:
        return [str(self._world.logs[broker].end)]

    def log(self, broker: int) -> list[str]:
        return [f"{epoch}:{value}" for epoch, value in self._world.logs[broker].records]

    def isr(self, broker: int) -> list[str]:
        return list(map(str, self._world.leaders[broker].isr))

    def asked(self, broker: int) -> list[str]:
        state = self._world.leaders[broker].isr_state
        return list(map(str, state.wanted)) if state.in_flight else ["nothing"]

    def error(self, broker: int) -> list[str]:
        return [self._world.errors[broker] or "none"]


def run_script(text: str) -> None:
    """Play a script. An ``AssertionError`` names the line."""
    world = ScriptWorld()
    seen = Expectations(world)
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        try:
            if words[0] == "expect":
                what, broker, equals, *values = words[1:]
                assert equals == "="
                found = getattr(seen, what)(int(broker))
                assert found == values, f"it is {' '.join(found) or 'empty'}"
            else:
                getattr(world, f"_{words[0]}")(*words[1:])
                for leader in world.leaders.values():
                    leader.validate()
        except AssertionError as error:
            raise AssertionError(f"line {number}: {line.strip()}: {error}") from None


def _split(words: tuple[str, ...], keys: tuple[str, ...]) -> tuple[list[str], dict[str, list[str]]]:
    """Leading words, then each key with the words that follow it."""
    leading: list[str] = []
    options: dict[str, list[str]] = {}
    target: list[str] = leading
    for word in words:
        if word in keys:
            target = options[word] = []
        else:
            target.append(word)
    return leading, options
