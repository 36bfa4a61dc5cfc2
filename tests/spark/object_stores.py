"""A server of S3's protocol on loopback (moto, by `make peers`), and what programs need to reach it."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from pathlib import Path

import pyarrow.fs as pafs

from tests import peers
from tests.spark.standalone import free_port, kill_group, wait_until

BUCKET = "pipelines"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


class ObjectStore:
    """One bucket."""

    def __init__(self, directory: Path) -> None:
        self._port = free_port()
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self._log = directory / "moto.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ObjectStore:
        command = [str(peers.S3_SERVER), "-H", "127.0.0.1", "-p", str(self._port)]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )
        wait_until(self._answers, "the S3 server")
        self.files().create_dir(BUCKET)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        kill_group(self._process)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/moto-api/", timeout=5):
                return True
        except OSError:
            return False

    def files(self) -> pafs.FileSystem:
        return pafs.S3FileSystem(
            access_key=KEYS["AWS_ACCESS_KEY_ID"],
            secret_key=KEYS["AWS_SECRET_ACCESS_KEY"],
            region=KEYS["AWS_REGION"],
            scheme="http",
            endpoint_override=f"127.0.0.1:{self._port}",
            allow_bucket_creation=True,
        )

    def numbers(self, folder: str) -> list[int]:
        """Names of files below the bucket that are numbers."""
        selector = pafs.FileSelector(f"{BUCKET}/{folder}", allow_not_found=True)
        names = [each.base_name for each in self.files().get_file_info(selector)]
        return sorted(int(each) for each in names if each.isdigit())

    def is_under_way(self, checkpoint: str, done: int) -> bool:
        """Whether a batch is begun and not committed, after at least `done` others."""
        commits = self.numbers(f"{checkpoint}/commits")
        return len(commits) >= done and len(self.numbers(f"{checkpoint}/offsets")) > len(commits)

    @property
    def environment(self) -> dict[str, str]:
        """For Python processes: endpoint and keys where AWS's tools look for them."""
        named = {each: value for each, value in os.environ.items() if not each.startswith("AWS_")}
        return {**named, **KEYS, "AWS_ENDPOINT_URL": self.endpoint}

    @property
    def settings(self) -> dict[str, str]:
        """Spark's, for S3A."""
        jars = sorted(str(each) for each in peers.S3A.glob("*.jar"))
        return {
            "spark.jars": ",".join(jars),
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": KEYS["AWS_REGION"],
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": KEYS["AWS_ACCESS_KEY_ID"],
            "spark.hadoop.fs.s3a.secret.key": KEYS["AWS_SECRET_ACCESS_KEY"],
        }
