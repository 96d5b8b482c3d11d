"""File systems of object stores: those of pyarrow, and for other kinds of addresses those of fsspec.

Credentials come from where each store looks for them, or from the address. Failures that may pass are tried again.
"""

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import pyarrow as pa
from pyarrow import fs

from radoboost.errors import ArgumentError, install
from radoboost.tables.addresses import StoreAddress

ATTEMPTS = 4  # at anything that a store is asked for
FIRST_PAUSE = 0.25  # seconds, before the second attempt; then twice as long each time
_S3 = ("s3", "s3a", "s3n")
_S3_OPTIONS = ("region", "scheme", "endpoint_override", "access_key", "secret_key", "session_token")
_OF_PYARROW = ("gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
# What file systems of fsspec call them; those of the web give what the server says, as it says it.
_VERSIONS = ("ETag", "etag", "VersionId", "version_id", "generation", "md5Hash", "content_md5", "checksum", "sha",
             "Content-MD5", "Digest")  # fmt: skip
_TIMES = ("LastModified", "last_modified", "Last-Modified", "mtime", "updated", "created", "modified", "modify",
          "modificationTime")  # fmt: skip
_FOR_GOOD = (
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    ImportError,
    NotImplementedError,
    ValueError,
    TypeError,
)

T = TypeVar("T")


def file_system(address: StoreAddress) -> tuple[Any, Callable[[StoreAddress], str]]:
    """The file system that an address belongs to, and what says what addresses are called there."""
    if address.scheme in _S3:
        return _s3(address), partial(_joined, address.host)
    if address.scheme in _OF_PYARROW:
        try:
            system, root = fs.FileSystem.from_uri(_without_path(address))
            return system, partial(_joined, root)
        except (ImportError, pa.ArrowNotImplementedError):
            pass  # this pyarrow was built without it
    return _of_fsspec(address)


def _joined(root: str, address: StoreAddress) -> str:
    return f"{root.rstrip('/')}/{address.path}" if address.path else root


def _s3(address: StoreAddress) -> Any:
    """S3, or anything that speaks like it at another endpoint."""
    if not address.host:
        raise ArgumentError(f"{address.public()} names no bucket; write s3://BUCKET/PATH")
    unknown = [(key, value) for key, value in address.options if key.lower() not in _S3_OPTIONS]
    if unknown:
        name = repr(unknown[0][0]) if unknown[0][1] else "without a value"
        raise ArgumentError(f"{address.public()} has an option {name}; those of s3:// are {', '.join(_S3_OPTIONS)}")
    endpoint = address.option("endpoint_override")
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    parts = urlsplit(endpoint if endpoint is None or "://" in endpoint else f"//{endpoint}")
    scheme = address.option("scheme") or (str(parts.scheme) if endpoint else "") or "https"
    patience = fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS)
    region = address.option("region")
    if region is None and not endpoint:
        with suppress(OSError):  # then that of the environment or the profile
            region = fs.resolve_s3_region(address.host)
    anonymous = address.user == "anonymous" and not address.password
    key, secret = ("", "") if anonymous else (address.user, address.password)
    return fs.S3FileSystem(
        access_key=key or address.option("access_key"),
        secret_key=secret or address.option("secret_key"),
        session_token=address.option("session_token"),
        anonymous=anonymous,
        region=region,
        scheme=scheme,
        endpoint_override=str(parts.netloc) + str(parts.path).rstrip("/") if endpoint else None,
        retry_strategy=patience,
    )


def _without_path(address: StoreAddress) -> str:
    """The address of the whole store, as pyarrow takes it, with whatever is secret in it."""
    before = quote(address.user) + (f":{quote(address.password, safe='')}" if address.password else "")
    options = list(address.options)
    if address.scheme in ("gs", "gcs") and address.option("retry_limit_seconds") is None:
        options.append(("retry_limit_seconds", "60"))
    query = "&".join(f"{key}={value}" for key, value in options)
    return f"{address.scheme}://{before}{'@' if before else ''}{address.host}/{'?' if query else ''}{query}"


# ---- fsspec


def _of_fsspec(address: StoreAddress) -> tuple[Any, Callable[[StoreAddress], str]]:
    try:
        import fsspec
    except ImportError:
        raise ArgumentError(
            f"cannot open {address.public()[:80]}: addresses that begin with {address.scheme}:// need the library "
            f"fsspec; run: {install('remote')}"
        ) from None
    try:
        fsspec.get_filesystem_class(address.scheme)
    except ValueError:
        raise ArgumentError(
            f"cannot open {address.public()[:80]}: no kind of store is called {address.scheme}; see "
            "fsspec.available_protocols(), and for databases rb.query"
        ) from None
    except ImportError as error:
        raise ArgumentError(f"{address.scheme}:// needs another library: {' '.join(str(error).split())}") from None
    # Nothing may be remembered: neither credentials for others, nor what a folder held a moment ago.
    system, _ = fsspec.core.url_to_fs(_whole(address), skip_instance_cache=True, use_listings_cache=False)
    return fs.PyFileSystem(PatientHandler(system)), lambda other: str(system._strip_protocol(_whole(other)))


def _whole(address: StoreAddress) -> str:
    before = quote(address.user, safe="") + (f":{quote(address.password, safe='')}" if address.password else "")
    query = "&".join(f"{key}={value}" if value else key for key, value in address.options)
    path = f"/{address.path}" if address.path else ""
    place = f"{address.scheme}://{before}{'@' if before else ''}{address.host}{path}"
    return f"{place}?{query}" if query else place


def patiently(ask: Callable[[], T]) -> T:
    """What is asked for, after a few attempts if need be; a failure that stays is an `OSError`."""
    for attempt in range(ATTEMPTS):
        try:
            return ask()
        except _FOR_GOOD:
            raise
        except Exception as error:
            if attempt == ATTEMPTS - 1:
                raise OSError(f"{str(error) or type(error).__name__} (tried {ATTEMPTS} times)") from None
            time.sleep(FIRST_PAUSE * 2**attempt * random.uniform(0.5, 1.0))
    raise AssertionError


class PatientHandler(fs.FSSpecHandler):  # type: ignore[misc]
    """What pyarrow asks a file system of fsspec for; whatever fails is tried again."""

    def get_file_info(self, paths: list[str]) -> list[Any]:
        return patiently(lambda: super(PatientHandler, self).get_file_info(paths))

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        return patiently(lambda: super(PatientHandler, self).get_file_info_selector(selector))

    def open_input_file(self, path: str) -> pa.PythonFile:
        """A file whose ranges are asked for as they are, and nothing around them."""
        return pa.PythonFile(PatientFile(patiently(lambda: self.fs.open(path, "rb", cache_type="none"))), mode="r")

    def version(self, path: str) -> tuple[Any, ...]:
        """What changes when the file does: its version where the store has one, or else its size and time."""
        about = patiently(lambda: self.fs.info(path))
        known = [str(about[name]) for name in _VERSIONS if about.get(name)]
        return (about.get("size"), *(known or (str(about[name]) for name in _TIMES if about.get(name))))


class PatientFile:
    """A file of fsspec, whose reads are tried again; a range that comes short is a failure."""

    def __init__(self, file: Any) -> None:
        self._file, self._place = file, 0
        self.closed = False
        self._size = int(file.seek(0, 2))

    def read(self, size: int = -1) -> bytes:
        wanted = max(0, min(self._size - self._place, self._size if size < 0 else size))
        block = patiently(lambda: self._range(wanted)) if wanted else b""
        self._place += wanted
        return block

    def _range(self, size: int) -> bytes:
        self._file.seek(self._place)
        block = bytes(self._file.read(size))
        if len(block) != size:
            raise OSError(f"{size - len(block):,} bytes are missing")
        return block

    def seek(self, place: int, whence: int = 0) -> int:
        """Go to a place, which is counted from the beginning (0), from here (1) or from the end (2)."""
        self._place = place + (0, self._place, self._size)[whence]
        return self._place

    def tell(self) -> int:
        """The place of the next byte."""
        return self._place

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Let go of the file."""
        self.closed = True
        self._file.close()
