"""The faults between machines: netsplits of all shapes, slowness, connections lost and doubled."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.sim.faults.injection import Link, Strike


def netsplit(s: Strike) -> bool:
    """One machine is cut off from all others, in both directions."""
    hosts = _hosts(s)
    alone = s.rng.choice(hosts)
    return _cut(s, f"{alone} is cut off", both_ways([alone], _others(hosts, alone)))


def halves(s: Strike) -> bool:
    """Two groups that do not hear each other."""
    hosts = _hosts(s)
    s.rng.shuffle(hosts)
    at = s.rng.randrange(1, len(hosts)) if len(hosts) > 1 else 0
    left, right = sorted(hosts[:at]), sorted(hosts[at:])
    return _cut(s, f"{left} and {right} are apart", both_ways(left, right))


def bridge(s: Strike) -> bool:
    """Two groups apart, and one machine that hears both."""
    hosts = _hosts(s)
    if len(hosts) < 3:
        return False
    s.rng.shuffle(hosts)
    middle, rest = hosts[0], hosts[1:]
    at = s.rng.randrange(1, len(rest))
    left, right = sorted(rest[:at]), sorted(rest[at:])
    return _cut(s, f"only {middle} hears both {left} and {right}", both_ways(left, right))


def one_way(s: Strike) -> bool:
    """Nothing gets from one machine to another; the other way is open."""
    hosts = _hosts(s)
    source = s.rng.choice(hosts)
    others = _others(hosts, source)
    if not others:
        return False
    target = s.rng.choice(others)
    return _cut(s, f"nothing gets from {source} to {target}", [(source, target)])


def deaf(s: Strike) -> bool:
    """One machine receives nothing from the others, or the others receive nothing from it."""
    hosts = _hosts(s)
    one = s.rng.choice(hosts)
    others = _others(hosts, one)
    if s.rng.random() < 0.5:
        return _cut(s, f"{one} hears no node", [(other, one) for other in others])
    return _cut(s, f"no node hears {one}", [(one, other) for other in others])


def isolate_leader(s: Strike) -> bool:
    """The active controller is cut off from the other nodes."""
    leader = s.cluster.active_controller()
    if leader is None:
        return False
    alone = leader.machine.host
    links = both_ways([alone], _others(_hosts(s), alone))
    return _cut(s, f"the active controller, {alone}, is cut off", links)


def slow_network(s: Strike) -> bool:
    """Some deliveries take long, so that connections overtake each other."""
    conditions = s.cluster.network.conditions
    conditions.slow_chance = s.rng.uniform(0.01, 0.2)
    conditions.slow_ms_max = s.rng.choice([20.0, 200.0, 1000.0])
    s.note(f"slow network: up to {conditions.slow_ms_max} ms")

    def heal() -> None:
        conditions.slow_chance = 0.0

    s.repair_later(s.rng.uniform(1000, 6000), heal)
    return True


def resets(s: Strike) -> bool:
    """Connections break in the middle, at random."""
    conditions = s.cluster.network.conditions
    conditions.reset_chance = s.rng.uniform(0.0005, 0.01)
    s.note("connections reset at random")

    def heal() -> None:
        conditions.reset_chance = 0.0

    s.repair_later(s.rng.uniform(1000, 5000), heal)
    return True


def lost_connections(s: Strike) -> bool:
    """Connections fall silent without an end, as behind a device that forgot them."""
    conditions = s.cluster.network.conditions
    conditions.silence_chance = s.rng.uniform(0.0005, 0.005)
    s.note("connections fall silent at random")

    def heal() -> None:
        conditions.silence_chance = 0.0

    s.repair_later(s.rng.uniform(1000, 4000), heal)
    return True


def double_connections(s: Strike) -> bool:
    """Let requests to connect arrive twice for a while: the second opens a connection that no client uses."""
    conditions = s.cluster.network.conditions
    conditions.double_chance = s.rng.uniform(0.1, 0.7)
    s.note("requests to connect are doubled at random")

    def heal() -> None:
        conditions.double_chance = 0.0

    s.repair_later(s.rng.uniform(1000, 5000), heal)
    return True


def _hosts(s: Strike) -> list[str]:
    return [node.machine.host for node in s.cluster.nodes.values()]


def _others(hosts: list[str], one: str) -> list[str]:
    return [host for host in hosts if host != one]


def both_ways(left: Iterable[str], right: Iterable[str]) -> list[Link]:
    """All links between one of `left` and one of `right`."""
    right = list(right)
    return [link for a in left for b in right for link in ((a, b), (b, a))]


def _cut(s: Strike, what: str, links: list[Link]) -> bool:
    if not links:
        return False
    s.note(f"netsplit: {what}")
    s.count("netsplits")
    join = s.cut(links)

    def heal() -> None:
        s.note("netsplit heals")
        join()

    s.repair_later(s.wait_ms(300, 3000, 9000), heal)
    return True
