"""Coordination on the quorum, as ZooKeeper's users know it: keys, sessions, watches, a lock, an election.

`Store` (:mod:`barnabas.raft.recipes.store`) is a `StateMachine` for a `RaftNode`: a tree of small
values that every replica holds. Ephemeral keys belong to a session and go with it; a watch receives
every change in order. `Lock` and `Election` are built of these.

How it maps on to the log. Every change, and the opening and the end of every session, is one record;
its offset is its version and a session's id. Heartbeats are not records: the leader counts them and confirms
those of a moment at which it surely led; a new leader gives every session its whole time again. A
session that the leader gives up ends by a record too, so that all replicas drop its keys at the same
point of the log. Watches are local to a replica and cost nothing elsewhere; since every replica applies
every change, none is missed, and after a snapshot was installed the watcher receives the difference.

What is fsynced: each record, by a majority, before its client is answered; nothing on reads. Reads are
local and may lag behind; `Store.barrier` waits until everything committed before is visible here.

Rolling restarts: restart one replica at a time, the leader last; each is back when it has applied
what the leader had when it started. A majority must stay up; a session survives if its owner reaches the
leader again within its time-out.
"""

from barnabas.raft.recipes.calling import ProposalError
from barnabas.raft.recipes.election import Election
from barnabas.raft.recipes.lock import Lock
from barnabas.raft.recipes.queueing import InLineError, SessionOverError
from barnabas.raft.recipes.session import Session
from barnabas.raft.recipes.store import Store
from barnabas.raft.recipes.tree import Change, Entry, RefusedError

__all__ = [
    "Change",
    "Election",
    "Entry",
    "InLineError",
    "Lock",
    "ProposalError",
    "RefusedError",
    "Session",
    "SessionOverError",
    "Store",
]
