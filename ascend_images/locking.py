"""Locks the variants of a selection, one after the other, and says what is not known of each."""

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from requests.utils import DEFAULT_CA_BUNDLE_PATH

from ascend_images.errors import unknown
from ascend_images.images.network import read_ca
from ascend_images.lock.lock import known_locks, lock_variant, write_locks
from ascend_images.lock.means import usual_means
from ascend_images.pins.lockfile import LockFile
from ascend_images.pins.model import Mirror
from ascend_images.pins.platform import Arch
from ascend_images.selection import Selection

#: The variables by which Python, requests, curl, git, pip and uv are told which certificates to trust.
_TRUST = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT")


def lock(
    selection: Selection,
    arches: Sequence[Arch],
    sources: Mapping[str, Path],
    *,
    mirror: str = "",
    ca_bundle: Path | None = None,
    say: Callable[[str], None],
) -> Iterator[str]:
    """Write the locks of every selected variant, and yield what to tell of each.

    Certificates in `ca_bundle` (PEM) are trusted besides those that this machine trusts. Raises what `lock_variant`
    and `read_ca` raise, and BadInput for an unknown mirror or source.
    """
    mirrors = selection.pins.mirror
    if mirror and mirror not in mirrors:
        raise unknown("mirror", mirror, mirrors, where="--mirror")
    names = {source.name.lower(): source.name for variant in selection.variants for source in variant.sources}
    for name in sources:
        if name.lower() not in names:
            raise unknown("source", name, names.values(), where="--source")
    certificates = read_ca(ca_bundle) if ca_bundle else b""
    means = usual_means(mirrors[mirror] if mirror else Mirror(), say)
    for variant in selection.variants:
        own = {source.name for source in variant.sources}
        given = {names[name.lower()]: folder for name, folder in sources.items() if names[name.lower()] in own}
        known = known_locks(variant, selection.locks)
        with ExitStack() as stack:
            if certificates:
                stack.enter_context(trusting(certificates))
            locks = lock_variant(variant, arches or variant.platforms, given, means, known=known)
        for path, made in zip(write_locks(locks, selection.locks), locks.values(), strict=True):
            yield _told(path.relative_to(selection.root), made)


@contextmanager
def trusting(certificates: bytes) -> Iterator[None]:
    """Have this process and those it starts trust certificates (PEM) besides what they trust already.

    Each program is told of one file alone, so that holds the machine's own and the usual public ones as well.
    """
    known = [os.environ.get(name, "") for name in _TRUST]
    known += [ssl.get_default_verify_paths().cafile or "", DEFAULT_CA_BUNDLE_PATH]
    files = [Path(name) for name in dict.fromkeys(known) if name and Path(name).is_file()]
    before = {name: os.environ.get(name) for name in _TRUST}
    with tempfile.TemporaryDirectory(prefix="ascend-images-") as folder:
        bundle = Path(folder) / "ca.pem"
        bundle.write_bytes(b"\n".join([*(file.read_bytes() for file in files), certificates]))
        try:
            os.environ.update(dict.fromkeys(_TRUST, str(bundle)))
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _told(path: Path, lock: LockFile) -> str:
    lines = [f"{path}: {len(lock.packages)} packages, {len(lock.conflicts)} demands lifted"]
    lines += [f"  incomplete: {gap}" for gap in lock.incomplete]
    return "\n".join(lines)
