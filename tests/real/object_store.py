"""An S3 server for tests, on the loopback, from the package ``moto``."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pyarrow.fs as pa_fs
from moto.server import ThreadedMotoServer


@contextmanager
def object_store(bucket: str) -> Iterator[tuple[pa_fs.FileSystem, str]]:
    """A bucket as a filesystem, and the options behind ``?`` of its URLs."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests", "AWS_DEFAULT_REGION": "us-east-1"}
    try:
        with mock.patch.dict(os.environ, keys):
            options = f"endpoint_override={host}:{port}&scheme=http"
            store, _ = pa_fs.FileSystem.from_uri(f"s3://{bucket}?{options}&allow_bucket_creation=true")
            store.create_dir(bucket)
            yield store, options
    finally:
        server.stop()
