"""The shape of each command's ``--json``. docs/json-output.md is written from it, and tests compare it with
what the commands print."""

from __future__ import annotations

from barnabas.cli.json_output.shapes import ANY, Either, Map, Shape

WITHOUT_JSON = {
    "up": "runs until Ctrl-C; cluster.json says where its nodes are",
    "node start": "runs until SIGTERM; its log is JSON lines by configuration",
    "zookeeper start": "runs until SIGTERM",
    "console": "runs until Ctrl-C; its only line is an address for a person",
    "completion bash": "prints a script for a shell",
    "completion zsh": "prints a script for a shell",
    "completion fish": "prints a script for a shell",
    "completion words": "is asked by those scripts, which take one name a line",
}
"""Commands without ``--json``, and why there is nothing for a program to read."""
FIGURES: dict[str, Shape] = {
    "records": int | None,
    "leader_bytes": int | None,
    "replica_bytes": int | None,
    "records_per_s": float | None,
    "bytes_per_s": float | None,
}
TOPIC: dict[str, Shape] = {
    "name": str,
    "topic_id": str,
    "internal": bool,
    "partitions": int,
    "replication_factor": int,
    "state": str,
    "under_replicated": int,
    "offline": int,
    **FIGURES,
}
PARTITION: dict[str, Shape] = {
    "partition": int,
    "state": str,
    "leader": int,
    "epoch": int,
    "replicas": [int],
    "isr": [int],
    "start?": int | None,
    "end?": int | None,
    "problems": [str],
    **FIGURES,
    "last_change?": ANY,
    "last_move?": ANY,
    "reason?": str,
    "at_ms?": int,
    "replica_states?": [{"broker": int, "state": str, "reason": str, "at_ms": int}],
}
DESCRIBED_TOPIC = {
    **TOPIC,
    "configs": Map("key", str | None),
    "min_insync_replicas": int | None,
    "partition_list": [PARTITION],
}
TOPIC_GOING = {"name": str, "state": str, "partition_list": [ANY]}
GROUP_PARTITION = {
    "topic": str,
    "partition": int,
    "committed": int | None,
    "end": int | None,
    "lag": int | None,
    "seconds": float | None,
    "member": str | None,
    "client": str | None,
}
DESCRIBED_PARTITION = {
    **GROUP_PARTITION,
    "in_flight?": int | None,
    "acquired?": int | None,
    "deliveries?": Either((Map("number of deliveries", int), None)),
}
"""The last three are of share groups only."""
PLACE = [ANY]
"""A partition as [topic, partition]."""
MEMBER = {
    "member_id": str,
    "instance_id": str | None,
    "client_id": str,
    "host": str,
    "protocol": str,
    "epoch": int,
    "assigned": [PLACE],
    "target": [PLACE],
}
ACL = {
    "resource": str,
    "name": str,
    "pattern": str,
    "principal": str,
    "host": str,
    "operation": str,
    "permission": str,
}
USER = {"name": str, "mechanism": str, "iterations": int}
TOKEN: dict[str, Shape] = {
    "token_id": str,
    "owner": str,
    "requester": str,
    "renewers": [str],
    "issued_ms": int,
    "expires_ms": int,
    "max_ms": int,
}
QUOTA = {"entity": Map("kind", str | None), "quota": str, "limit": float | None, "unit": str}
CERTIFICATE: dict[str, Shape] = {
    "subject": str,
    "issuer": str,
    "names": [str],
    "not_before": str,
    "not_after": str,
    "days": int,
    "fingerprint": str,
}
REPLICA = {
    "node_id": int,
    "directory_id": str | None,
    "log_end_offset": int,
    "lag": int,
    "last_fetch_timestamp": int,
    "last_caught_up_timestamp": int,
    "status": str,
    "endpoints": [str],
}
VOTER = {"node_id": int, "directory_id": str | None, "endpoints": [str]}
QUORUM: dict[str, Shape] = {
    "cluster_id": str,
    "leader_id": int,
    "leader_epoch": int,
    "high_watermark": int,
    "max_follower_lag": int,
    "max_follower_lag_time_ms": int,
}
EVENT = {"offset": int, "at_ms": int, "kind": str, "subject": str, "change": str, "reason": str}
ASKED_MOVE = {
    "partition": str,
    "replicas": Either(([int], None)),
    "refused": str | None,
}
LOAD = {
    "broker": int,
    "bytes": int,
    "bytes_per_s": int,
    "replicas": int,
    "leaders": int,
    "leader_bytes_per_s": int,
}
HANGING = {
    "topic": str,
    "partition": int,
    "transactional_id": str | None,
    "producer_id": int,
    "producer_epoch": int,
    "coordinator_epoch": int,
    "start_offset": int,
    "last_timestamp": int,
    "silent_ms": int,
    "reason": str,
}
FEATURE = {"name": str, "lowest": int, "highest": int, "level": int}
CHECK = {"check": str, "ok": bool, "found": str}
FINDING = {"code": str, "severity": str, "what": str, "why": str, "command": str, "link": str}

FEATURES_MOVED = {"dry_run": bool, "features": [{"name": str, "before": int, "after": int}]}
NODE_DIRECTORY = {"node_id": int, "directory": str}
WAY_BACK = {"dry_run": bool, "znodes": int, "directories": [NODE_DIRECTORY]}
VOTER_CHANGE: dict[str, Shape] = {
    "dry_run": bool,
    "node_id": int,
    "directory_id": str,
    "voters_before": [VOTER],
    "notes": [str],
}
BATCH = {
    "job": str,
    "query": str,
    "query_id": str,
    "group": str | None,
    "batch": int,
    "rows": int,
    "batch_ms": int,
    "committed_ms": int,
    "phases_ms": Map("phase", int),
    "sources": [
        {
            "name": str,
            "rows": int,
            "rows_per_s": float,
            "offsets_behind": int | None,
            "seconds_behind": int | None,
        }
    ],
}
AUDIT_FINDING = {
    "topic": str,
    "partition": int,
    "replica": str,
    "what": str,
    "first": int,
    "last": int,
    "file": str,
    "position": int,
}
MEASURED = {
    "records": int,
    "bytes": int,
    "seconds": float,
    "records_per_second": float,
    "mib_per_second": float,
    "latency_ms?": dict.fromkeys(("avg", "p50", "p95", "p99", "p99.9", "max"), float),
}
OUTPUTS: dict[str, Shape] = {
    "doctor": {"cluster_id": str, "worst": str | None, "findings": [FINDING]},
    "node health": ANY,
    "storage random-uuid": {"cluster_id": str},
    "storage format": {"node_id": int, "cluster_id": str, "directories": [str]},
    "storage info": {"directories": Map("directory", ANY), "problems": [str]},
    "topics create": [{"name": str, "topic_id": str, "partitions": int, "replication_factor": int}],
    "topics list": [TOPIC],
    "topics describe": [Either((DESCRIBED_TOPIC, TOPIC_GOING))],
    "topics alter": [{"name": str, "before": int, "partitions": int}],
    "topics delete": [str],
    "topics delete-records": [
        {
            "partition": str,
            "start": int,
            "before": Either((int, str)),
            "end": int,
            "outcome": str,
        }
    ],
    "configs describe": [
        {
            "name": str,
            "value": str | None,
            "source": str,
            "read_only": bool,
            "sensitive": bool,
            "type": str,
            "documentation": str,
            "synonyms": [{"source": str, "name": str, "value": str | None}],
        }
    ],
    "configs alter": {
        "resource": str,
        "dry_run": bool,
        "changes": [{"key": str, "before": str | None, "after": str | None}],
    },
    "groups list": [{"group_id": str, "protocol_type": str, "state": str, "type": str}],
    "groups describe": {
        "group": str,
        "state": str,
        "type": str,
        "protocol": str,
        "epoch": int,
        "assignment_epoch": int,
        "members": [MEMBER],
        "partitions": [DESCRIBED_PARTITION],
    },
    "groups lag": [
        {
            "group": str,
            "type": str,
            "state": str,
            "members": int,
            "lag": int,
            "seconds": float | None,
            "problem": str,
            "partitions": [GROUP_PARTITION],
        }
    ],
    "groups reset-offsets": {
        "group": str,
        "executed": bool,
        "partitions": [
            {"topic": str, "partition": int, "from": int | None, "to": int, "note": str}
        ],
    },
    "groups delete": [{"group": str, "offsets": int, "outcome": str}],
    "groups delete-offsets": [{"topic": str, "partition": int, "committed": int, "outcome": str}],
    "groups remove-members": [
        {"member": str, "instance": str | None, "client": str, "outcome": str}
    ],
    "transactions list": [
        {"transactional_id": str, "coordinator": int, "producer_id": int, "state": str}
    ],
    "transactions describe": {
        "transactional_id": str,
        "state": str,
        "coordinator": int | None,
        "producer_id": int,
        "producer_epoch": int,
        "timeout_ms": int,
        "started_ms": int | None,
        "running_ms": int | None,
        "partitions": [str],
    },
    "transactions find-hanging": [HANGING],
    "transactions abort": {
        "topic": str,
        "partition": int,
        "producer_id": int,
        "producer_epoch": int,
        "start_offset": int,
        "reason": str,
    },
    "acls list": [ACL],
    "acls add": [ACL],
    "acls remove": [ACL],
    "users list": [USER],
    "users add": [USER],
    "users remove": [USER],
    "tokens create": {**TOKEN, "hmac?": str},
    "tokens list": [TOKEN],
    "tokens renew": {"token_id": str, "expires_ms": int},
    "tokens expire": {"token_id": str, "expires_ms": int},
    "quotas describe": [QUOTA],
    "quotas alter": [QUOTA],
    "certificates list": [
        {"node": str, "listener": str, "address": str, **CERTIFICATE, "chain": [CERTIFICATE]}
    ],
    "certificates check": [{"check": str, "result": str, "says": str}],
    "certificates renew": {"nodes": [int], "days": int, "new_authority": bool},
    "leaders elect": [{"partition": str, "leader": int, "outcome": str, "refused": bool}],
    "reassign plan": {
        "version": int,
        "partitions": [{"topic": str, "partition": int, "replicas": [int]}],
    },
    "reassign execute": [ASKED_MOVE],
    "reassign throttle": Map("broker", int),
    "reassign status": [
        {
            "topic": str,
            "partition": str,
            "replicas": [int],
            "adding": [int],
            "removing": [int],
            "caught_up": [int],
            "waits_for": str | None,
            "bytes_left": int,
            "rate": int,
            "seconds_left": float | None,
        }
    ],
    "reassign cancel": [ASKED_MOVE],
    "cluster events": EVENT,
    "cluster client-metrics": [ANY],
    "cluster balance": {
        "executed": bool,
        "before": [LOAD],
        "after": [LOAD],
        "bytes_copied": int,
        "replicas_copied": int,
        "partitions": [
            {
                "topic": str,
                "partition": int,
                "before": [int],
                "after": [int],
                "bytes": int,
                "refused": str | None,
            }
        ],
    },
    "cluster describe": {
        "cluster_id": str,
        "controller_id": int | None,
        "brokers": [{"node_id": int, "host": str, "port": int, "rack": str | None, "fenced": bool}],
        "partitions": Map("state", int),
        "certificates?": [{"node_id": int, "listener": str, "seconds": int}],
    },
    "cluster metrics": Map("metric", int),
    "cluster unregister": {"broker": int, "assigned_partitions": int},
    "cluster unregister-controller": {"controller": int},
    "features upgrade": FEATURES_MOVED,
    "features downgrade": FEATURES_MOVED,
    "features describe": {"epoch": int, "features": [FEATURE]},
    "quorum describe": Either(
        (
            {**QUORUM, "voters": [REPLICA], "observers": [REPLICA]},
            {**QUORUM, "voters": [VOTER], "observers": [VOTER]},
            [REPLICA],
            Map("metric", Either((float, str))),
        )
    ),
    "quorum add-controller": {**VOTER_CHANGE, "endpoints": [str]},
    "quorum remove-controller": VOTER_CHANGE,
    "quorum make-dynamic": {
        "dry_run": bool,
        "changed": bool,
        "voters": [VOTER],
        "bootstrap_servers?": str,
    },
    "quorum recover": {
        "dry_run": bool,
        "node_id": int,
        "end_offset": int,
        "is_damaged": bool,
        "notes": [str],
    },
    "metadata tree": [{"path": str, "is_folder": bool}],
    "metadata cat": ANY,
    "migrate start": {
        "dry_run": bool,
        "cluster_id": str,
        "notes": [str],
        "directories": [NODE_DIRECTORY],
    },
    "migrate copy": {
        "dry_run": bool,
        "cluster_id": str,
        "topics": int,
        "partitions": int,
        "records": int,
        "directories": [NODE_DIRECTORY],
    },
    "migrate release": WAY_BACK,
    "migrate revert": WAY_BACK,
    "migrate finalize": {"dry_run": bool, "cluster_id": str},
    "migrate status": ANY,
    "migrate check": ANY,
    "migrate compare": [ANY],
    "log dump": ANY,
    "log events": EVENT,
    "log tree": ANY,
    "log dirs move": {"broker": int, "directory": str, "replicas": [str], "are_there": bool},
    "log dirs describe": [
        {
            "broker": int,
            "directory": str,
            "error": str,
            "reason": str,
            "replicas": [
                {"topic": str, "partition": int, "bytes": int, "lag": int, "future": bool}
            ],
        }
    ],
    "debug bundle": {"path": str, "files": [str]},
    "dashboards write": [str],
    "pipeline run": Either(
        (
            BATCH,
            {"job": str, "batches": int, "rows": int},
            AUDIT_FINDING,
            {"job": str, "replicas": int, "records": int},
        )
    ),
    "pipeline validate": {
        "job": str,
        "kind": str,
        "queries": [
            {
                "sinks": [str],
                "sources": [str],
                "steps": [str],
                "output_mode": str,
                "checkpoint": str,
            }
        ],
    },
    "pipeline ledger skip": {"application": str, "next_batch": int},
    "pipeline ledger forget": {"application": str, "next_batch": int},
    "pipeline explain": ANY,
    "pipeline status": ANY,
    "pipeline compact": [{"table": str, "before": int, "after": int}],
    "pipeline offsets": [
        {"group": str, "topic": str, "partition": int, "source": int, "target": int}
    ],
    "pipeline doctor": [CHECK],
    "pipeline ledger show": [ANY],
    "produce": {"topic": str, "acknowledged": int},
    "consume": ANY,
    "tail": ANY,
    "perf produce": MEASURED,
    "perf consume": MEASURED,
    "perf latency": MEASURED,
    "perf end-to-end": MEASURED,
    "profiles create": {"name": str, "file": str},
    "profiles use": {"name": str},
    "profiles delete": {"name": str},
    "profiles list": [
        {
            "name": str,
            "bootstrap": str,
            "security_protocol": str,
            "schema_registry": str,
            "is_used": bool,
        }
    ],
}
"""Command → the shape of the value that it prints."""
LINES = {"cluster events", "log events", "log dump", "consume", "tail", "pipeline run"}
"""Commands that print one value a line."""


def output_of(words: list[str]) -> str:
    """The command of the table that `words` begin with. Raises ``KeyError``."""
    for count in (3, 2, 1):
        name = " ".join(words[:count])
        if name in OUTPUTS:
            return name
    raise KeyError(" ".join(words))
