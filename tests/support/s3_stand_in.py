"""A stand-in for a server of S3, for want of a real one in a wheel: moto's, in this process, all in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

KEY, SECRET = "AKIATESTTESTTEST", "a-secret-that-nobody-shows"


@dataclass(frozen=True, slots=True)
class S3StandIn:
    """Where it listens, and the one bucket it has; `keys_file` holds keys to it."""

    endpoint: str
    bucket: str
    keys_file: Path

    def names(self) -> list[str]:
        """Return the names of all objects, sorted."""
        return sorted(each["path"] for batch in self._bucket().list() for each in batch)

    def content(self, name: str) -> bytes:
        """Return an object."""
        return bytes(self._bucket().get(name).bytes())

    def _bucket(self) -> Any:
        from obstore.store import S3Store  # noqa: PLC0415 - heavy, and only some tests need it

        return S3Store(
            self.bucket,
            endpoint=self.endpoint,
            access_key_id=KEY,
            secret_access_key=SECRET,
            region="us-east-1",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )


@contextmanager
def s3_stand_in(folder: Path, *, bucket: str = "logs") -> Iterator[S3StandIn]:
    """Start it, with an empty bucket; end it on leaving the context."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - heavy, and only some tests need it

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        urlopen(Request(f"{endpoint}/{bucket}", method="PUT")).close()  # noqa: S310 - our own server
        keys = folder / "s3.keys"
        keys.touch(mode=0o600)
        keys.write_text(f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
        yield S3StandIn(endpoint, bucket, keys)
    finally:
        server.stop()
