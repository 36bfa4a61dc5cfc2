"""Jobs whose source decodes values: what reaches a topic is what was read, good or bad."""

from __future__ import annotations

import re
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.spark.commands import Command
from tests.spark.conftest import MakeTopic
from tests.spark.topics import made_again, read, write

GOOD, BAD = [b'{"id": 1}', b'{ "id": 2, "more": [] }'], b"{broken"
JOB = """
name = "typed-{kind}"
kind = "{kind}"
checkpoint = "{directory}/{target}"
[cluster]
kafka.bootstrap.servers = "{bootstrap}"
[source]
topics = ["{source}"]
options = {{ {more} value.format = "json", value.schema = "id BIGINT" }}
{extra}
"""
EARLIEST = 'startingOffsets = "earliest",'


def test_typed_records_are_copied_replayed_and_mirrored_as_their_bytes(
    command: Command, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, dead = make_topic(1), make_topic(1)
    write(bootstrap, source, [*GOOD, BAD])
    mirrored = f"m.{source}"
    sink = '[[sink]]\ntopic = "{target}"\n'
    sql = '[transform]\nsql = "select key, value from source where value is not null"\n' + sink
    mirror = f'[mirror]\nalias = "m"\ntarget.kafka.bootstrap.servers = "{bootstrap}"'
    jobs = [
        ("pipeline", make_topic(1), sink, [*GOOD, BAD]),
        ("pipeline", make_topic(1), sql, [*GOOD, BAD]),
        ("pipeline", make_topic(1), sink + f'[dead_letters]\ntopic = "{dead}"', GOOD),
        ("replay", make_topic(1), "[replay]\nbegin = 2020-01-01T00:00:00Z\n" + sink, [*GOOD, BAD]),
        ("mirror", mirrored, mirror, [*GOOD, BAD]),
    ]
    for kind, target, extra, expected in jobs:
        file = tmp_path / f"{target}.toml"
        text = JOB.format(
            kind=kind,
            directory=tmp_path,
            target=target,
            bootstrap=bootstrap,
            source=source,
            more="" if kind == "replay" else EARLIEST,
            extra=extra.format(target=target),
        )
        file.write_text(text)
        command("run", str(file), "--available-now")
        found = read(bootstrap, target)
        assert [(each.key, each.value) for each in found] == [(each, each) for each in expected]
    assert [each.value for each in read(bootstrap, dead)] == [BAD]


def test_a_job_of_few_columns_has_dead_letters_and_fails_with_a_sentence(
    command: Command,
    bootstrap: str,
    admin: AdminClient,
    make_topic: MakeTopic,
    tmp_path: Path,
) -> None:
    source, target, dead = make_topic(1), make_topic(1), make_topic(1)
    file = tmp_path / "job.toml"
    text = JOB.format(
        kind="pipeline",
        directory=tmp_path,
        target=target,
        bootstrap=bootstrap,
        source=source,
        more=EARLIEST + ' columns = "key,value",',
        extra=f'[[sink]]\ntopic = "{target}"\n[dead_letters]\ntopic = "{dead}"',
    )
    file.write_text(text)
    write(bootstrap, source, [*GOOD, BAD])
    command("run", str(file), "--available-now")
    assert [each.value for each in read(bootstrap, dead)] == [BAD]
    made_again(admin, source)
    write(bootstrap, source, GOOD)
    said = command("run", str(file), "--available-now", ends_with=1)
    assert re.search(r"job typed-pipeline failed in stage .*created again", said), said
