"""Copies a topic by Bytewax: BOOTSTRAP SOURCE TARGET."""

import sys

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

bootstrap, source, target = sys.argv[1:]
servers = bootstrap.split(",")
flow = Dataflow("copy")
taken = op.input("taken", flow, KafkaSource(servers, [source]))
values = op.map("values", taken, lambda record: KafkaSinkMessage(None, record.value))
op.output("given", values, KafkaSink(servers, target, {"enable.idempotence": "true"}))
run_main(flow)
