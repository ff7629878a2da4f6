"""Locks a selection: versions.lock first, then the packages of each variant; and says what is not known."""

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path

from packaging.utils import canonicalize_name
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from ascend_images.errors import BadInput, LookupIncomplete, unknown
from ascend_images.files import read_regular, write_atomic
from ascend_images.images.network import read_ca
from ascend_images.images.turns import in_turn
from ascend_images.lock.lock import known_locks, lock_variant, write_locks
from ascend_images.lock.means import Means, usual_means
from ascend_images.lock.sources import UnreadSourcesError, from_checkouts, local_checkouts, require_commits
from ascend_images.lock.versions import Learned, all_names, learn, usual_hosts
from ascend_images.lock.wanted import wanted, wanted_text
from ascend_images.pins.lockfile import LockFile, file_name, is_current
from ascend_images.pins.model import Mirror
from ascend_images.pins.places import InFile
from ascend_images.pins.platform import Arch
from ascend_images.pins.questions import answered
from ascend_images.pins.resolve import resolve_all
from ascend_images.pins.variant import Variant
from ascend_images.pins.versions_lock import FILE, VersionsLock
from ascend_images.selection import PINS_FILE, Selection
from ascend_images.toml_text import read_toml

#: The variables by which Python, requests, curl, git, pip and uv are told which certificates to trust.
_TRUST = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT")

Known = Mapping[str, Mapping[Arch, LockFile]]


@dataclass(frozen=True, kw_only=True)
class Renewal:
    """What is to be learned anew.

    `update` holds names: of sources, `base`, of .run packages and of packages; `fresh` is all of them; `as_of` leaves
    out packages that were published after that day; `offline` asks nobody.
    """

    update: tuple[str, ...] = ()
    fresh: bool = False
    offline: bool = False
    as_of: date | None = None


@contextmanager
def alone(root: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the locks of a project for this process alone meanwhile; raises OSError.

    `lock` and `bump` write what they read at their start, with their own answers: two at once would undo one another's.
    """
    with in_turn(root, ["locks"], say, what="invoke lock or bump"):
        yield


def lock(
    selection: Selection,
    arches: Sequence[Arch],
    sources: Mapping[str, Path],
    *,
    mirror: str = "",
    ca_bundle: Path | None = None,
    renewal: Renewal | None = None,
    say: Callable[[str], None],
) -> Iterator[str]:
    """Write versions.lock and the package locks of every selected variant, and yield what to tell of each.

    Certificates in `ca_bundle` (PEM) are trusted besides those that this machine trusts. One variant that cannot be
    locked keeps none of the others from it. Raises, at the end, BadInput for all that is wrong, else LookupIncomplete
    for all that could not be asked; at once BadInput for an unknown mirror, source or name to update, and for a
    checkout of another project.
    """
    renewal = renewal or Renewal()
    given = _sources(selection, sources)
    for variant in selection.variants:
        local_checkouts(variant, _own(variant, given))
    known = {variant.name: known_locks(variant, selection.locks) for variant in selection.variants}
    _check_update(renewal.update, selection, known)
    certificates = read_ca(ca_bundle) if ca_bundle else b""
    means = _means(selection, mirror, renewal, say)
    if renewal.as_of:
        say("only packages are locked as of a day: refs, base images and .run packages stay as they are locked")
    with _trusting(certificates):
        learned = _learn(selection, means, renewal, given)
    yield from map(str, (*learned.changes, *learned.notes))
    failures: list[BadInput | LookupIncomplete] = []
    for variant in selection.variants:
        meant = answered(variant, learned.lock)
        own = _own(variant, given)
        try:
            with _trusting(certificates):
                require_commits(meant, own, means.cache, means.mirror.git, offline=means.offline)
                made = lock_variant(
                    meant,
                    arches or variant.platforms,
                    own,
                    means,
                    known=known[variant.name],
                    kept=_kept(known[variant.name], renewal),
                )
        except (BadInput, LookupIncomplete) as error:
            failures.append(error)
            yield f"{variant.name}: its package locks stay as they are: see below"
            continue
        failures += _gaps(selection, made, means)
        for path, lock_file in zip(write_locks(made, selection.locks), made.values(), strict=True):
            yield _told(path.relative_to(selection.root), lock_file)
    yield from _left_behind(selection, learned)
    _require(learned, failures)


def _sources(selection: Selection, sources: Mapping[str, Path]) -> dict[str, Path]:
    """Return the given checkouts by the sources' own names; raises BadInput for one of no source."""
    names = {source.name.lower(): source.name for variant in selection.variants for source in variant.sources}
    for name in sources:
        if name.lower() not in names:
            raise unknown("source", name, names.values(), where="--source")
    return {names[name.lower()]: folder for name, folder in sources.items()}


def _own(variant: Variant, given: Mapping[str, Path]) -> dict[str, Path]:
    """Return the given checkouts of the variant's own sources."""
    names = {source.name for source in variant.sources}
    return {name: folder for name, folder in given.items() if name in names}


def _check_update(update: Sequence[str], selection: Selection, known: Known) -> None:
    """Raise BadInput for a name that is neither in versions.lock's questions nor a package."""
    names = {*all_names(selection.variants), *(name for variant in selection.variants for name in variant.packages)}
    names |= {name for locks in known.values() for one in locks.values() for name in one.versions}
    folded = {form for name in names for form in (name.casefold(), str(canonicalize_name(name)))}
    for name in update:
        if name.casefold() not in folded and canonicalize_name(name) not in folded:
            raise unknown("name", name, names, where="--update")


def _means(selection: Selection, mirror: str, renewal: Renewal, say: Callable[[str], None]) -> Means:
    mirrors = selection.pins.mirror
    if mirror and mirror not in mirrors:
        raise unknown("mirror", mirror, mirrors, where="--mirror")
    chosen = mirrors[mirror] if mirror else Mirror()
    anew = renewal.fresh or bool(renewal.update)
    made = usual_means(chosen, say, offline=renewal.offline, as_of=renewal.as_of, fresh=anew)
    return replace(made, mirror_name=mirror, places=places(selection))


def places(selection: Selection, changed: str = "--set") -> InFile:
    """Return where the pins of a selection stand, what versions.toml does not say at `changed`."""
    raw = read_toml(read_regular(selection.root / PINS_FILE).decode("utf-8-sig"))
    return InFile(selection.pins, raw, changed)


def _learn(selection: Selection, means: Means, renewal: Renewal, given: Mapping[str, Path]) -> Learned:
    path = selection.output / FILE
    root = selection.pins.locked if selection.changed else VersionsLock()
    return learn(
        selection.variants,
        selection.locked,
        usual_hosts(means),
        today=datetime.now().astimezone().date(),
        update=renewal.update,
        fresh=renewal.fresh,
        offline=renewal.offline,
        prune=selection.everything,
        given=tuple(given),
        say=means.say,
        write=lambda lock: write_atomic(path, str(lock.beside(root))),
    )


def _kept(known: Mapping[Arch, LockFile], renewal: Renewal) -> dict[Arch, dict[str, str]]:
    """Return the locked versions that are taken again where they fit."""
    if renewal.fresh or renewal.as_of:
        return {}
    lifted = {canonicalize_name(name) for name in renewal.update}
    return {
        arch: {name: version for name, version in lock.versions.items() if name not in lifted}
        for arch, lock in known.items()
    }


def _gaps(selection: Selection, made: Mapping[Arch, LockFile], means: Means) -> list[LookupIncomplete]:
    """Return an error for what no index could be asked about, if there is any."""
    paths = [selection.locks / file_name(one.variant, arch) for arch, one in made.items() if not one.complete]
    if not paths:
        return []
    shown = " and ".join(str(path.relative_to(selection.root)) for path in paths)
    return [
        LookupIncomplete(
            f"{shown}: incomplete: hashes of what comes from an index that could not be reached",
            wanted="every package with its hash",
            do=f"the same again where those answer{means.way.advice}",
        )
    ]


def _left_behind(selection: Selection, learned: Learned) -> Iterator[str]:
    """Yield what has to be made anew besides: locks of variants that were not chosen, and the rendered files."""
    if not any(change.before != change.after for change in learned.changes):
        return
    if not selection.changed:
        chosen = {variant.name for variant in selection.variants}
        for variant in resolve_all(selection.pins, allow_broken=True, to_be_locked=True):
            locks = known_locks(variant, selection.locks).values() if variant.name not in chosen else ()
            stale = [one for one in locks if not is_current(one, answered(variant, learned.lock))]
            if any(is_current(one, variant) for one in stale):
                yield f"{variant.name}: asks for what changed too: invoke lock --variant {variant.name}"
        yield "what changed stands in rendered files: invoke render"


def _require(learned: Learned, failures: Sequence[BadInput | LookupIncomplete]) -> None:
    """Raise one error for what went wrong with versions.lock and with package locks, if anything did."""
    every: list[BadInput | LookupIncomplete] = [*failures]
    try:
        learned.require()
    except (BadInput, LookupIncomplete) as error:
        every.insert(0, error)
    if len(every) == 1:
        raise every[0]
    if every:
        # What is wrong goes before what is only not known.
        every.sort(key=lambda error: isinstance(error, LookupIncomplete))
        kind = LookupIncomplete if isinstance(every[0], LookupIncomplete) else BadInput
        raise kind(
            "\n".join(dict.fromkeys(error.found for error in every)),
            wanted="; ".join(dict.fromkeys(error.wanted for error in every if error.wanted)),
            do="\n          ".join(_steps(every)),
        )


def _steps(every: Sequence[BadInput | LookupIncomplete]) -> list[str]:
    """Return what to type next, each thing once: one command for all sources that could not be read."""
    steps = [error.do for error in every if error.do and not isinstance(error, UnreadSourcesError)]
    unread = [name for error in every if isinstance(error, UnreadSourcesError) for name in error.names]
    if unread:
        steps.append(from_checkouts(dict.fromkeys(unread)))
    return list(dict.fromkeys(steps))


def explain(
    selection: Selection,
    arches: Sequence[Arch],
    sources: Mapping[str, Path],
    package: str,
    *,
    mirror: str = "",
    ca_bundle: Path | None = None,
    offline: bool = False,
    say: Callable[[str], None],
) -> Iterator[str]:
    """Yield who wants a package of the selected variants' locks, in which version, and in which file that stands.

    Raises BadInput for a package of none of them, LookupIncomplete where what others ask for could not be read.
    """
    given = _sources(selection, sources)
    means = _means(selection, mirror, Renewal(offline=offline), say)
    certificates = read_ca(ca_bundle) if ca_bundle else b""
    for variant in selection.variants:
        own = _own(variant, given)
        locks = {a: LockFile.load(selection.locks / file_name(variant.name, a)) for a in arches or variant.platforms}
        with _trusting(certificates):
            found = wanted(variant, locks, package, own, means)
        yield wanted_text(found)


def _trusting(certificates: bytes) -> AbstractContextManager[None]:
    return trusting(certificates) if certificates else nullcontext()


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
