"""An S3 API on loopback, for tests of dumps and warehouses that lie in an object store: moto's server, in memory."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

BUCKET = "tests"

_START_SECONDS = 60


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _ask(url: str, method: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as answer:
        answer.read()


@contextmanager
def serve_s3() -> Iterator[dict[str, str]]:
    """Run a server with one bucket, ``BUCKET``; the environment that clients find it by."""
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                _ask(f"{endpoint}/{BUCKET}", "PUT")
                break
            except (urllib.error.URLError, ConnectionError):
                if time.monotonic() > until or server.poll() is not None:
                    raise
                time.sleep(0.1)
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        server.terminate()
        server.wait()
