"""A distributed worker of Kafka Connect with one connector: BOOTSTRAP FOLDER CLASS_PATH CONFIG.

CONFIG is a file of JSON. The worker supports exactly-once sources. Ends when the connector has failed.
"""

import json
import sys
import time
from pathlib import Path

from tests.clients.connect_worker import ConnectWorker

bootstrap, folder, class_path, config = sys.argv[1:]
worker = ConnectWorker(bootstrap, Path(folder), Path(config).stem, class_path)
try:
    worker.start("copy", json.loads(Path(config).read_text()))
    problem = None
    while problem is None:
        time.sleep(1)
        try:
            problem = worker.problem("copy")
        except OSError as error:  # it may have no leader of its group for a while
            print(error, file=sys.stderr)
    sys.exit(problem)
finally:
    worker.kill()
