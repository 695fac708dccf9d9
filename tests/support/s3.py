"""An S3 on loopback, and an environment that leads there."""

from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest


def serve(moto_server: Any) -> Iterator[str]:
    """Run the server; gives its address."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def make_bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a bucket, and tell the environment how to get there; gives its URI."""
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    with urlopen(Request(f"{endpoint}/bucket", method="PUT"), timeout=30) as answer:
        assert answer.status == 200
    return "s3://bucket"
