"""A Spark program of its own whose checkpoint, staging location, ledger and table are in an object store.

Copies a topic to a topic, by transactions or by a manifest, or into Parquet files by Spark's own sink.
"""

from __future__ import annotations

import json
import sys

from tests.spark.loopback_session import loopback_session


def main(
    kind: str, master: str, bootstrap: str, source: str, target: str, place: str, settings: str
) -> None:
    """Until what is in `source` is written. `settings` are Spark's, as JSON."""
    spark = loopback_session(master, json.loads(settings), "ERROR")
    reading = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "500",
        "maxOffsetsInDriver": "0",
    }
    frame = spark.readStream.format("barnabas").options(**reading).load()
    rows = frame.selectExpr("key", "value").repartition(2)
    if kind == "parquet":
        writer = rows.writeStream.format("parquet").option("path", f"{place}/table")
    else:
        writing = {"kafka.bootstrap.servers": bootstrap, "topic": target, "delivery": kind}
        writer = rows.writeStream.format("barnabas").options(**writing)
    writer = writer.option("checkpointLocation", f"{place}/checkpoint").trigger(availableNow=True)
    writer.start().awaitTermination()
    if kind == "parquet":
        found = spark.read.parquet(f"{place}/table").selectExpr("cast(value as string) as value")
        print(json.dumps(sorted(int(each.value) for each in found.collect())))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
