"""Debezium's connector for PostgreSQL, in a distributed worker: BOOTSTRAP FOLDER CLASS_PATH TARGET LINES.

A server of PostgreSQL begins in a folder of its own; each line of LINES becomes a row of a table there. The
program ends when the connector has failed, or by SIGTERM, and takes that folder along.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from barnabas.cli.local.free_ports import FreePorts
from tests.clients.connect_worker import ConnectWorker

PATIENCE_S = 60.0
PAUSE_S = 0.05
LOOK_S = 1.0
OWNER = "postgres"


@contextmanager
def server(port: int) -> Iterator[None]:
    """PostgreSQL with what logical decoding needs in its log. It refuses to run as root."""
    programs = Path(os.path.realpath(shutil.which("postgres") or "")).parent
    owner = OWNER if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory() as folder:
        if owner:
            shutil.chown(folder, owner, owner)
        new = [programs / "initdb", "-U", OWNER, "-A", "trust", "-N", "-D", folder]
        subprocess.run(
            new, check=True, cwd=folder, user=owner, group=owner, stdout=subprocess.DEVNULL
        )
        options = ["-c", "wal_level=logical", "-c", "fsync=off"]
        options += ["-c", f"unix_socket_directories={folder}"]
        words = [programs / "postgres", "-D", folder, "-h", "127.0.0.1", "-p", str(port), *options]
        process = subprocess.Popen(words, cwd=folder, user=owner, group=owner)
        try:
            yield
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait()


def wait_for_server(psql: list[str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    sql = "create table numbers (number bigint primary key)"
    while subprocess.run([*psql, "-c", sql], check=False).returncode:
        if time.monotonic() > deadline:
            sys.exit("PostgreSQL does not answer")
        time.sleep(PAUSE_S)


def connector(port: int, name: str, target: str) -> dict[str, str]:
    """Its configuration: the table's numbers alone go to one topic."""
    transforms = "org.apache.kafka.connect.transforms"
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": OWNER,
        "database.password": "none",
        "database.dbname": OWNER,
        "topic.prefix": name,
        "plugin.name": "pgoutput",
        "table.include.list": "public.numbers",
        "exactly.once.support": "required",
        "transforms": "row,number,topic",
        "transforms.row.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.number.type": f"{transforms}.ExtractField$Value",
        "transforms.number.field": "number",
        "transforms.topic.type": f"{transforms}.RegexRouter",
        "transforms.topic.regex": ".*",
        "transforms.topic.replacement": target,
    }


def main() -> None:
    bootstrap, folder, class_path, target, lines = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    (port,) = FreePorts().take(1)
    psql = ["psql", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", OWNER]
    with server(port):
        wait_for_server(psql)
        name = f"debezium-{target}"
        worker = ConnectWorker(bootstrap, Path(folder), name, class_path)
        try:
            worker.start("copy", connector(port, name, target))
            sys.exit(insert_until_failure(psql, Path(lines), worker))
        finally:
            worker.kill()


def insert_until_failure(psql: list[str], lines: Path, worker: ConnectWorker) -> str:
    """A row for each line that comes. Returns why the connector has failed."""
    inserting = subprocess.Popen(psql, stdin=subprocess.PIPE, text=True)
    assert inserting.stdin is not None
    looked = time.monotonic()
    with lines.open() as source:
        rest = ""
        while True:
            *whole, rest = (rest + source.read()).split("\n")
            for line in whole:
                inserting.stdin.write(f"insert into numbers values ({line});\n")
            inserting.stdin.flush()
            time.sleep(PAUSE_S)
            if time.monotonic() - looked > LOOK_S:
                looked = time.monotonic()
                try:
                    problem = worker.problem("copy")
                except OSError as error:  # it may have no leader of its group for a while
                    print(error, file=sys.stderr)
                else:
                    if problem is not None:
                        return problem


main()
