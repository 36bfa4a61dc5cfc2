"""Copies a topic by Quix Streams, exactly once: BOOTSTRAP SOURCE TARGET GROUP FOLDER."""

import sys

from quixstreams import Application

bootstrap, source, target, group, folder = sys.argv[1:]
application = Application(
    broker_address=bootstrap,
    consumer_group=group,
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    commit_interval=1.0,
    state_dir=folder,
    use_changelog_topics=False,
    auto_create_topics=False,
    loglevel="WARNING",
)
rows = application.dataframe(application.topic(source, value_deserializer="bytes"))
rows.to_topic(application.topic(target, value_serializer="bytes"))
application.run()
