"""Package indexes asked over the simple API: which files of a version there are, and what a distribution asks for."""

import hashlib
import io
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date
from pathlib import Path

import msgspec
import requests
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pypi_simple import (
    PYPI_SIMPLE_ENDPOINT,
    DistributionPackage,
    NoSuchProjectError,
    PyPISimple,
    UnsupportedContentTypeError,
)
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from ascend_images.lock.kept import keep
from ascend_images.lock.logins import Logins
from ascend_images.lock.metadata import Metadata, parse_metadata, sdist_metadata, wheel_metadata, whole
from ascend_images.lock.patience import within
from ascend_images.lock.release import File, IndexUnreachableError, Release, normal_version
from ascend_images.lock.remote_file import RemoteFile
from ascend_images.pins.addresses import holds_login, masked

#: Seconds to wait for a connection and for an answer; a probe that decides whether an index is there waits less.
_TIMEOUT = (10.0, 60.0)
_PROBE_TIMEOUT = (4.0, 8.0)
#: The same for the whole of a probe: a server may send a byte now and then for ever.
_PROBE_TOTAL = 20.0
#: Seconds for which a list of files is taken from the disk; indexes tell their clients the same.
_LISTING_AGE = 600
_NOT_THERE = (404, 410)


def default_index(environment: Mapping[str, str]) -> str:
    """Return the address of the default index: the client's own, unless the environment names another."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if environment.get(name):
            # uv takes `name=address` as well.
            before, _, after = environment[name].partition("=")
            return after if after and "://" not in before else environment[name]
    return PYPI_SIMPLE_ENDPOINT


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """A file as lists keep it: the fields of `File` in order. What was kept before there were dates lacks the last."""

    filename: str
    url: str
    sha256: str
    wheel: bool
    has_metadata: bool
    yanked: bool
    published: date | None = None

    @property
    def file(self) -> File:
        """The file itself."""
        return File(**msgspec.structs.asdict(self))


class _Listed(msgspec.Struct, frozen=True):
    files: dict[str, list[_Row]]


@dataclass
class Catalog:
    """The indexes themselves. Metadata is kept on disk for ever (by checksum of the file), lists for ten minutes.

    When `offline` no index is asked, and lists count however old they are. When `fresh` those of earlier commands do
    not count; nor do they ever where a version is missing in them. Nothing that is kept holds the login of an index.
    """

    cache: Path
    default: str = PYPI_SIMPLE_ENDPOINT
    offline: bool = False
    fresh: bool = False
    _local: threading.local = field(default_factory=threading.local, repr=False)
    _listings: dict[tuple[str, str], _Listed | None] = field(default_factory=dict, repr=False)
    _kept: set[tuple[str, str]] = field(default_factory=set, repr=False)
    _logins: Logins = field(default_factory=Logins, repr=False)

    def _client(self) -> PyPISimple:
        if not hasattr(self._local, "client"):
            session = requests.Session()
            session.auth = self._logins
            retries = Retry(total=3, connect=1, backoff_factor=0.4, status_forcelist=(429, 502, 503, 504))
            adapter = HTTPAdapter(max_retries=retries, pool_maxsize=2)
            session.mount("https://", adapter)
            session.mount("http://", adapter)
            self._local.client = PyPISimple(self._logins.without(self.default), session=session)
        client: PyPISimple = self._local.client
        return client

    def release(self, name: str, version: str, index: str | None = None) -> Release | None:
        """Return one version's files, None where the index does not have it; raises IndexUnreachableError."""
        found = _release(self._listing(name, index or self.default), name, version)
        return found or self.renewed(name, version, index)

    def renewed(self, name: str, version: str, index: str | None = None) -> Release | None:
        """Return the same as the index has it now, not as a list says that was kept; raises IndexUnreachableError.

        When `offline`, the list that was kept is all there is.
        """
        key = self._key(name, index or self.default)
        if key in self._kept and not self.offline:
            self._listings[key] = self._fetch_listing(key, _TIMEOUT)
            self._kept.discard(key)
        return _release(self._listing(name, index or self.default), name, version)

    def probe(self, index: str, name: str) -> None:
        """Ask an index about one package with little patience; raises IndexUnreachableError when it cannot be asked."""
        try:
            within(_PROBE_TOTAL, lambda: self._listing(name, index, timeout=_PROBE_TIMEOUT))
        except TimeoutError:
            raise IndexUnreachableError(f"no whole answer within {_PROBE_TOTAL:g} s") from None

    def every_release(self, name: str, index: str | None = None) -> tuple[Release, ...]:
        """Return every version of a package that an index has, in no order; raises IndexUnreachableError."""
        listed = self._listing(name, index or self.default)
        found = (self.release(name, version, index) for version in (listed.files if listed else ()))
        return tuple(release for release in found if release is not None)

    def _listing(self, name: str, index: str, timeout: tuple[float, float] = _TIMEOUT) -> _Listed | None:
        key = self._key(name, index)
        if key not in self._listings:
            kept = None if self.fresh and not self.offline else self._kept_listing(key)
            if kept:
                self._kept.add(key)
            self._listings[key] = kept or self._fetch_listing(key, timeout)
        return self._listings[key]

    def _key(self, name: str, index: str) -> tuple[str, str]:
        return self._logins.without(index).rstrip("/"), str(canonicalize_name(name))

    def _listing_path(self, key: tuple[str, str]) -> Path:
        return self.cache / "listings" / f"{hashlib.sha256('|'.join(key).encode()).hexdigest()[:32]}.json"

    def _kept_listing(self, key: tuple[str, str]) -> _Listed | None:
        path = self._listing_path(key)
        try:
            if not self.offline and time.time() - path.stat().st_mtime > _LISTING_AGE:
                return None
            return msgspec.json.decode(path.read_bytes(), type=_Listed)
        except (OSError, msgspec.MsgspecError):
            return None

    def _fetch_listing(self, key: tuple[str, str], timeout: tuple[float, float]) -> _Listed | None:
        base, name = key
        self._require_online(name)
        client = self._client()
        client.endpoint = base + "/"
        try:
            page = client.get_project_page(name, timeout=timeout)
        except NoSuchProjectError:
            return None
        except requests.HTTPError as error:
            if error.response is not None and error.response.status_code in _NOT_THERE:
                return None
            raise IndexUnreachableError(_cause(error)) from None
        except (requests.RequestException, UnsupportedContentTypeError, ValueError) as error:
            raise IndexUnreachableError(_cause(error)) from None
        listed = _Listed(_by_version(page.packages))
        # A list with logins of its own would take them to the disk.
        if not any(holds_login(package.url) for package in page.packages):
            keep(self._listing_path(key), msgspec.json.encode(listed))
        return listed

    def metadata(self, file: File) -> Metadata:
        """Return what a distribution asks for; raises IndexUnreachableError when it could not be read."""
        path = self.cache / "metadata" / f"{file.sha256 or hashlib.sha256(file.url.encode()).hexdigest()}.json"
        try:
            return _thaw(msgspec.json.decode(path.read_bytes(), type=_Frozen))
        except (OSError, msgspec.MsgspecError):
            pass
        self._require_online(file.filename)
        try:
            found = self._read_metadata(file)
        except (requests.RequestException, ValueError, OSError) as error:
            raise IndexUnreachableError(f"{file.filename}: {_cause(error)}") from None
        keep(path, msgspec.json.encode(_freeze(found)))
        return found

    def _require_online(self, what: str) -> None:
        if self.offline:
            raise IndexUnreachableError(f"{what}: not asked (--offline), and never learned before")

    def _read_metadata(self, file: File) -> Metadata:
        session = self._client().s
        if not file.wheel:
            return sdist_metadata(_get(session, file.url), file.filename)
        if file.has_metadata:
            answer = session.get(file.url + ".metadata", timeout=_TIMEOUT)
            if answer.ok:
                return whole(parse_metadata(answer.text))
        remote = RemoteFile.open(session, file.url, _TIMEOUT)
        return wheel_metadata(remote or io.BytesIO(_get(session, file.url)))

    def sha256(self, file: File) -> str:
        """Return a file's checksum, downloading the file where the index does not say; raises IndexUnreachableError."""
        if file.sha256:
            return file.sha256
        self._require_online(file.filename)
        digest = hashlib.sha256()
        try:
            with self._client().s.get(file.url, timeout=_TIMEOUT, stream=True) as answer:
                answer.raise_for_status()
                for block in answer.iter_content(1 << 20):
                    digest.update(block)
        except requests.RequestException as error:
            raise IndexUnreachableError(f"{file.filename}: {_cause(error)}") from None
        return digest.hexdigest()


def _cause(error: BaseException) -> str:
    """Return the innermost reason of a failed request, in one line."""
    text = str(error.args[0]) if isinstance(error, requests.RequestException) and error.args else str(error)
    for known, words in (
        ("NameResolutionError", "its host name is not known here"),
        ("Connection refused", "the connection is refused"),
        ("CERTIFICATE_VERIFY_FAILED", "its certificate is not trusted here"),
        ("timed out", "no answer in time"),
        ("ProxyError", "the proxy gives no way to it"),
    ):
        if known in text:
            return words
    return masked(" ".join(text.split()))[:300]


def _release(listed: _Listed | None, name: str, version: str) -> Release | None:
    rows = listed.files.get(normal_version(version)) if listed else None
    return Release(str(canonicalize_name(name)), version, tuple(row.file for row in rows)) if rows else None


def _by_version(packages: Iterable[DistributionPackage]) -> dict[str, list[_Row]]:
    found: dict[str, list[_Row]] = {}
    for package in packages:
        if package.package_type not in ("wheel", "sdist") or package.version is None:
            continue
        row = _Row(
            package.filename,
            package.url,
            package.digests.get("sha256", ""),
            package.package_type == "wheel",
            bool(package.has_metadata),
            bool(package.is_yanked),
            package.upload_time.astimezone(UTC).date() if package.upload_time else None,
        )
        found.setdefault(normal_version(package.version), []).append(row)
    return found


class _Frozen(msgspec.Struct, frozen=True):
    requires: tuple[str, ...]
    requires_python: str
    extras: tuple[str, ...]
    build: tuple[str, ...]
    known: bool


def _freeze(metadata: Metadata) -> _Frozen:
    return _Frozen(
        tuple(map(str, metadata.requires)),
        metadata.requires_python,
        metadata.extras,
        tuple(map(str, metadata.build)),
        metadata.known,
    )


def _thaw(frozen: _Frozen) -> Metadata:
    return Metadata(
        tuple(map(Requirement, frozen.requires)),
        frozen.requires_python,
        frozen.extras,
        tuple(map(Requirement, frozen.build)),
        frozen.known,
    )


def _get(session: requests.Session, url: str) -> bytes:
    answer = session.get(url, timeout=_TIMEOUT)
    answer.raise_for_status()
    return answer.content
