"""Copies a topic by Faust: BOOTSTRAP SOURCE TARGET GROUP FOLDER."""

import sys

import faust

bootstrap, source, target, group, folder = sys.argv[1:]
app = faust.App(
    group,
    broker=[f"kafka://{server}" for server in bootstrap.split(",")],
    datadir=folder,
    web_enabled=False,
    producer_acks=-1,
    topic_disable_leader=True,
    topic_replication_factor=3,
)
taken = app.topic(source, value_type=bytes, value_serializer="raw")
given = app.topic(target, value_type=bytes, value_serializer="raw")


@app.agent(taken)
async def copy(stream):
    async for value in stream:
        sent = await given.send(value=value)
        await sent


sys.argv[1:] = ["worker", "--loglevel", "warn"]
app.main()
