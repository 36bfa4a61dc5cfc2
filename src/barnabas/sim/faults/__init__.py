"""The faults of a seed: every kind by name, a mix of them, and a schedule that strikes.

The kinds are functions of one :class:`Strike`, gathered by family in `crashes`, `targeted_crashes`,
`unclean_recovery`, `mid_turn_crashes`, `networks`, `clocks`, `disks`, `latent_corruption`, `directories`,
`reassignments`, `transactions` and `membership`; `budget` says how much may be broken at once.
Every fault ends: the schedule repairs what it broke.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.sim.faults import (
    clocks,
    crashes,
    directories,
    disks,
    latent_corruption,
    membership,
    mid_turn_crashes,
    networks,
    quorum_loss,
    reassignments,
    targeted_crashes,
    transactions,
    unclean_recovery,
)
from barnabas.sim.faults.injection import Strike, Struck

__all__ = ["KINDS", "LOSE_DATA", "Kind", "Strike", "Struck"]

Kind = Callable[[Strike], bool]
KINDS: Mapping[str, Kind] = {
    "kill": crashes.kill,
    "kill-leader": crashes.kill_leader,
    "power": crashes.power,
    "shutdown": crashes.shutdown,
    "kill-all": crashes.kill_all,
    "blackout": crashes.blackout,
    "restart-all": crashes.restart_all,
    "roll": crashes.roll,
    "ambush-voters": targeted_crashes.ambush_voters,
    "ambush-leaders": targeted_crashes.ambush_leaders,
    "ambush-controller": targeted_crashes.ambush_controller,
    "ambush-joining": targeted_crashes.ambush_joining,
    "ambush-isr": targeted_crashes.ambush_isr,
    "ambush-power": targeted_crashes.ambush_power,
    "ambush-surveys": unclean_recovery.ambush_surveys,
    "ambush-moves": reassignments.ambush_moves,
    "ambush-transactions": transactions.ambush_transactions,
    "kill-within": mid_turn_crashes.kill_within,
    "power-within": mid_turn_crashes.power_within,
    "pause": clocks.pause,
    "slow-node": clocks.slow_node,
    "slow-disk": clocks.slow_disk,
    "clock-jump": clocks.clock_jump,
    "clock-drift": clocks.clock_drift,
    "netsplit": networks.netsplit,
    "halves": networks.halves,
    "bridge": networks.bridge,
    "one-way": networks.one_way,
    "deaf": networks.deaf,
    "isolate-leader": networks.isolate_leader,
    "slow-network": networks.slow_network,
    "resets": networks.resets,
    "lost-connections": networks.lost_connections,
    "double-connections": networks.double_connections,
    "disk-error": disks.disk_error,
    "disk-failure": disks.disk_failure,
    "disk-full": disks.disk_full,
    "rot": disks.rot,
    "rot-at-rest": disks.rot_at_rest,
    "lost-segment": disks.lost_segment,
    "rot-metadata": disks.rot_metadata,
    "misread": latent_corruption.misread,
    "misread-metadata": latent_corruption.misread_metadata,
    "rot-of-coordinator": latent_corruption.rot_of_coordinator,
    "disk-away": disks.disk_away,
    "away-for-long": directories.away_for_long,
    "other-directories": disks.other_directories,
    "moves": directories.moves,
    "voters": membership.voters,
    "endpoints": membership.endpoints,
    "lose-history": quorum_loss.lose_history,
    "lose-quorum": quorum_loss.lose_quorum,
}
"""The kinds by the name that ``--faults`` takes. False: it could not strike now."""
LOSE_DATA = frozenset({
    "power",
    "blackout",
    "disk-failure",
    "rot",
    "rot-at-rest",
    "lost-segment",
    "rot-of-coordinator",
    "ambush-power",
    "power-within",
    "other-directories",
})  # fmt: skip
"""Kinds that take written bytes of partitions away."""
