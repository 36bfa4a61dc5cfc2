"""Time that is not what it seems: dates that jump, clocks that drift, processes that stand still or crawl."""

from __future__ import annotations

from barnabas.sim.faults.injection import Strike


def clock_jump(s: Strike) -> bool:
    """The date of one machine jumps; its monotonic clock does not."""
    node = s.any_node()
    if node is None:
        return False
    jump = s.rng.choice([-1, 1]) * s.rng.choice([100.0, 10_000.0, 3_600_000.0])
    s.note(f"the clock of node {node.id} jumps by {jump:.0f} ms")
    node.machine.jump(jump)
    return True


def clock_drift(s: Strike) -> bool:
    """The clock of one machine goes too fast or too slow."""
    node = s.any_node()
    if node is None:
        return False
    rate = s.rng.choice([0.8, 0.95, 1.05, 1.25])
    s.note(f"the clock of node {node.id} goes {rate} times as fast")
    machine = node.machine
    machine.set_clock_rate(rate)
    s.repair_later(s.rng.uniform(2000, 8000), lambda: machine.set_clock_rate(1.0))
    return True


def pause(s: Strike) -> bool:
    """A process is paused; its connections stay open."""
    node = s.any_node()
    if node is None or node.process is None:
        return False
    duration = s.wait_ms(50, 500, 4000)
    s.note(f"pause node {node.id} for {duration:.0f} ms")
    node.process.pause(duration)
    return True


def slow_node(s: Strike) -> bool:
    """A process does everything a while later, as on a host without time for it."""
    node = s.any_node()
    if node is None or node.process is None:
        return False
    process = node.process
    delay = s.rng.choice([1.0, 5.0, 20.0])
    s.note(f"node {node.id} is slow: up to {delay:.0f} ms for each step")
    process.slow_down(delay)
    s.repair_later(s.rng.uniform(1000, 4000), lambda: process.slow_down(0.0))
    return True


def slow_disk(s: Strike) -> bool:
    """Syncs and other blocking work of one machine take long."""
    node = s.any_node()
    if node is None:
        return False
    machine = node.machine
    usual, machine.sync_ms_max = machine.sync_ms_max, s.rng.choice([20.0, 200.0, 1000.0])
    s.note(f"the disk of node {node.id} takes up to {machine.sync_ms_max:.0f} ms")
    cold = s.rng.choice([0.0, 0.2])
    machine.disk.cold_read_rate = max(cold, machine.disk.usual_cold_read_rate)

    def heal() -> None:
        machine.sync_ms_max = min(usual, 1.5)
        machine.disk.cold_read_rate = machine.disk.usual_cold_read_rate

    s.repair_later(s.rng.uniform(1000, 6000), heal)
    return True
