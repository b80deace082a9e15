"""A server on loopback that refuses every request, as an S3, Google or Azure store does, and counts them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BODY = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>No.</Message></Error>"


@dataclass
class RefusingStore:
    """What such a server answers, and what it was asked.

    Attributes:
        address: host and port.
        folder: for the credentials that Google's clients read from a file.
        status: of HTTP.
        code: the store's own word for the error.
        requests: method and path of each request.
    """

    address: str
    folder: Path
    status: int = 403
    code: str = "AccessDenied"
    requests: list[str] = field(default_factory=list)

    def uris(self) -> dict[str, str]:
        """A place in each store, as pyarrow finds it on this server."""
        azure = f"blob_storage_authority={self.address}&dfs_storage_authority={self.address}&enable_tls=false"
        return {
            "s3": "s3://lake/audit",
            "gs": f"gs://anonymous@lake/audit?endpoint_override={self.address}&scheme=http",
            "abfss": f"abfss://lake@account.dfs.core.windows.net/audit?{azure}&credential_kind=anonymous",
        }

    def environment(self) -> dict[str, str]:
        """The variables by which pyarrow finds S3 here, and deltalake all three stores."""
        account = self.folder / "account.json"
        account.write_text(
            f'{{"gcs_base_url": "http://{self.address}", "disable_oauth": true, "client_email": "", "private_key": "", '
            '"private_key_id": ""}'
        )
        return {
            "AWS_ENDPOINT_URL": f"http://{self.address}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "wrong",
            "AWS_SECRET_ACCESS_KEY": "wrong",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "GOOGLE_SERVICE_ACCOUNT": str(account),
            "AZURE_STORAGE_ACCOUNT_NAME": "account",
            "AZURE_STORAGE_ACCOUNT_KEY": "d3Jvbmc=",
            "AZURE_ENDPOINT": f"http://{self.address}",
            "AZURE_ALLOW_HTTP": "true",
        }


@contextmanager
def refuse(folder: Path) -> Iterator[RefusingStore]:
    """Run the server."""

    class Refusal(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            store.requests.append(f"{self.command} {self.path}")
            body = b"" if self.command == "HEAD" else BODY.format(code=store.code).encode()
            self.send_response(store.status)
            self.send_header("x-ms-error-code", store.code)
            self.send_header("x-ms-request-id", "1")
            if body:
                self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer  # noqa: N815 - the library's names

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as server:
        store = RefusingStore(f"127.0.0.1:{server.server_port}", folder)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield store
        finally:
            server.shutdown()
            thread.join()
