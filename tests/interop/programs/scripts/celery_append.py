"""Celery's tasks append each number of INPUT to OUTPUT: BOOTSTRAP TOPIC INPUT OUTPUT."""

import subprocess
import sys
import time

from celery import Celery

if sys.argv[1] == "worker":
    bootstrap, topic, output = sys.argv[2:]
else:
    bootstrap, topic, given, output = sys.argv[1:]
app = Celery("tasks", broker=f"confluentkafka://{bootstrap.split(',')[0]}")
app.conf.update(
    task_default_queue=topic,
    task_ignore_result=True,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="append")
def append(number):
    with open(output, "a") as target:
        target.write(f"{number}\n")


if sys.argv[1] == "worker":
    options = ["--pool", "solo", "--without-gossip", "--without-mingle", "--loglevel", "warning"]
    app.worker_main(["worker", *options])
else:
    worker = subprocess.Popen([sys.executable, __file__, "worker", bootstrap, topic, output])
    with open(given) as lines:
        while worker.poll() is None:
            line = lines.readline()
            if line:
                append.delay(int(line))
            else:
                time.sleep(0.05)
