"""Learns what the refs, base images and .run packages of variants mean today, and keeps what was known before."""

import concurrent.futures
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from ascend_images.errors import BadInput, LookupIncomplete, MissingTool
from ascend_images.lock.digests import ImageHost, Imagetools, settle_base
from ascend_images.lock.git import GitClient, GitHost, Refs
from ascend_images.lock.means import Means, silent
from ascend_images.lock.reach import MovedError, Outcome, UnreachableError
from ascend_images.lock.refs import Known, settle_ref
from ascend_images.lock.run_files import Downloads, FileHost, settle_run
from ascend_images.lock.way import DIRECTLY, Way
from ascend_images.pins.questions import Asked, AskedBase, AskedRef, AskedRun, asked, is_commit, pruned
from ascend_images.pins.variant import Variant
from ascend_images.pins.versions_lock import Change, Entry, VersionsLock, changes

#: How many remotes are asked at a time: each is another program, waiting for its host most of the time.
_AT_A_TIME = 4
_OFFLINE = "not asked (--offline)"

#: By what a question may fail: the way, the tool, the disk, or settings of this machine that must not be.
_NO_ANSWER = (UnreachableError, MissingTool, OSError, BadInput)

#: What `--update` calls all base images.
BASE = "base"

One = AskedRef | AskedBase | AskedRun
Answers = Mapping[One, Outcome[Entry]]


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """Whom to ask: git hosts, image registries, file servers; and by way of which mirror."""

    git: GitHost
    images: ImageHost
    files: FileHost
    way: Way = DIRECTLY


def usual_hosts(means: Means) -> Hosts:
    """Return the hosts as this machine reaches them, by way of the mirror that was chosen."""
    return Hosts(
        git=GitClient(means.cache, means.mirror.git),
        images=Imagetools(means.mirror.registry),
        files=Downloads(means.cache, means.say),
        way=means.way,
    )


@dataclass(frozen=True)
class Unreached:
    """Something that gave no answer; `kept` is what the lock goes on saying of it, empty where it says nothing.

    `otherwise` is what becomes of it then.
    """

    subject: str
    reason: str
    kept: str
    otherwise: str = "not known"

    def __str__(self) -> str:
        return f"{self.subject}: {f'stays {self.kept}' if self.kept else self.otherwise}"


@dataclass(frozen=True, kw_only=True)
class Learned:
    """The lock as it is after asking, what changed, and what could not be learned or is wrong."""

    lock: VersionsLock
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    unreached: tuple[Unreached, ...]
    problems: tuple[BadInput, ...]
    way: Way = DIRECTLY

    def require(self) -> None:
        """Raise one error for all that is wrong, else LookupIncomplete for all that gave no answer."""
        missed = _by_reason(self.unreached)
        if self.problems:
            kind = MovedError if all(isinstance(one, MovedError) for one in self.problems) else BadInput
            told = [*(one.found for one in self.problems), *([f"not reached: {missed}"] if missed else [])]
            raise kind(
                "\n".join(told),
                wanted="; ".join(_once(one.wanted for one in self.problems)),
                do="; ".join(_once(one.do for one in self.problems)),
            )
        if missed:
            raise LookupIncomplete(
                f"not reached: {missed}",
                wanted="an answer from each of them; all others are in versions.lock",
                do=self._again,
            )

    @property
    def _again(self) -> str:
        """What to do about what gave no answer: whichever command it was, with what may help it."""
        if all(one.reason == _OFFLINE for one in self.unreached):
            return "the same again without --offline"
        return f"the same again once they can be reached{self.way.advice}"


def learn(
    variants: Sequence[Variant],
    old: VersionsLock,
    hosts: Hosts,
    *,
    today: date,
    update: Collection[str] = (),
    fresh: bool = False,
    offline: bool = False,
    prune: bool = False,
    given: Collection[str] = (),
    say: Callable[[str], None] = silent,
    write: Callable[[VersionsLock], None] = lambda _: None,
) -> Learned:
    """Return what the pins of `variants` mean, having asked for each; `write` is given the lock after every answer.

    What was locked stays where it still holds. `update` names sources, `base`, or parts or files of .run packages for
    which another answer is taken; `fresh` takes every answer as it is now; `prune` drops what no variant asks for;
    `given` are sources whose files are read in a checkout. Nothing that could not be reached is lost.
    """
    pins = asked(variants)
    work = _Work(old=old, hosts=hosts, today=today, update={name.casefold() for name in update}, fresh=fresh)
    every: tuple[One, ...] = (*pins.refs, *pins.bases, *pins.runs)
    lock = pruned(old, variants) if prune else old
    if lock != old:
        write(lock)
    answers = {one: _unasked(_locked(lock, one)) for one in every}
    if not offline:
        for found in _ask(work, pins, say):
            answers |= found
            lock = lock.having(*(outcome.entry for outcome in found.values() if outcome.entry is not None))
            write(lock)
    return _told(old, lock, answers, hosts.way, given)


@dataclass(frozen=True, kw_only=True)
class _Work:
    """What is the same for every question of one call."""

    old: VersionsLock
    hosts: Hosts
    today: date
    update: Collection[str]
    fresh: bool

    def repository(self, group: Sequence[AskedRef]) -> Answers:
        """Ask for the refs of one repository, all by one list of its refs."""
        if all(is_commit(one.ref) for one in group):
            return {one: self._ref(one, None) for one in group}
        try:
            refs = self.hosts.git.refs(group[0].repository)
        except _NO_ANSWER as error:
            return {one: _unanswered(_locked(self.old, one), error) for one in group}
        return {one: self._ref(one, refs) for one in group}

    def _ref(self, one: AskedRef, refs: Refs | None) -> Outcome[Entry]:
        old = self.old.ref(one.repository, one.ref)
        known = Known(one, old, self.today, self._renew(one), self.hosts.way)
        return _answer(lambda: settle_ref(known, refs, self.hosts.git), old)

    def base(self, one: AskedBase) -> Answers:
        """Ask for one base image."""
        old, renew, hosts = self.old.base_image(one.image), self._renew(one), self.hosts

        def settle() -> Outcome[Entry]:
            return settle_base(one, old, hosts.images, today=self.today, renew=renew, way=hosts.way)

        return {one: _answer(settle, old)}

    def run(self, one: AskedRun) -> Answers:
        """Ask for one .run package."""
        old, renew = self.old.run_file(one.url), self._renew(one)
        return {one: _answer(lambda: settle_run(one, old, self.hosts.files, today=self.today, renew=renew), old)}

    def _renew(self, one: One) -> bool:
        return self.fresh or any(name.casefold() in self.update for name in names(one))


def _unasked(known: Entry | None) -> Outcome[Entry]:
    return Outcome(entry=known, unreached="" if known else _OFFLINE)


def _answer(settle: Callable[[], Outcome[Entry]], old: Entry | None) -> Outcome[Entry]:
    """Return what comes of a question; where there is no answer, or nothing to ask with, what is known stays."""
    try:
        return settle()
    except _NO_ANSWER as error:
        return _unanswered(old, error)


def _unanswered(old: Entry | None, error: Exception) -> Outcome[Entry]:
    if isinstance(error, BadInput):
        return Outcome(entry=old, problem=error)
    if isinstance(error, OSError):
        return Outcome(entry=old, unreached=f"{error.filename or 'this machine'}: {error.strerror or error}")
    return Outcome(entry=old, unreached=error.found if isinstance(error, MissingTool) else str(error))


def names(one: One) -> tuple[str, ...]:
    """Return what `--update` may call something."""
    if isinstance(one, AskedRef):
        return tuple(pin.removeprefix("sources.") for pin in one.pins)
    if isinstance(one, AskedBase):
        return (BASE, one.image)
    return (one.pin.rpartition(".")[2], one.url.rsplit("/", 1)[-1])


def all_names(variants: Iterable[Variant]) -> tuple[str, ...]:
    """Return every name that `--update` may be given for what these variants ask of versions.lock."""
    pins = asked(variants)
    every: tuple[One, ...] = (*pins.refs, *pins.bases, *pins.runs)
    return tuple(dict.fromkeys(name for one in every for name in names(one)))


def _ask(work: _Work, pins: Asked, say: Callable[[str], None]) -> Iterator[Answers]:
    """Yield the answers as they come: repositories and images a few at a time, then one download after the other."""
    repositories: dict[str, list[AskedRef]] = {}
    for one in pins.refs:
        repositories.setdefault(one.repository, []).append(one)
    pool = concurrent.futures.ThreadPoolExecutor(_AT_A_TIME)
    try:
        futures = [pool.submit(work.repository, group) for group in repositories.values()]
        futures += [pool.submit(work.base, one) for one in pins.bases]
        if futures:
            say(f"asking for {len(pins.refs)} refs of {len(repositories)} repositories, {len(pins.bases)} base images")
        for future in concurrent.futures.as_completed(futures):
            yield future.result()
    finally:
        # After an interruption too: what has not begun does not begin.
        pool.shutdown(wait=False, cancel_futures=True)
    for run in pins.runs:
        yield work.run(run)


def _told(old: VersionsLock, lock: VersionsLock, answers: Answers, way: Way, given: Collection[str]) -> Learned:
    unreached = []
    for one, outcome in answers.items():
        if outcome.unreached:
            entry = outcome.entry or _locked(lock, one)
            kept = entry.short if entry else ""
            unreached.append(Unreached(_subject(one, way), outcome.unreached, kept, _otherwise(one, given)))
    return Learned(
        lock=lock,
        changes=changes(old, lock),
        notes=tuple(note for outcome in answers.values() for note in outcome.notes),
        unreached=tuple(unreached),
        problems=tuple(outcome.problem for outcome in answers.values() if outcome.problem),
        way=way,
    )


def _locked(lock: VersionsLock, one: One) -> Entry | None:
    if isinstance(one, AskedRef):
        return lock.ref(one.repository, one.ref)
    return lock.base_image(one.image) if isinstance(one, AskedBase) else lock.run_file(one.url)


def _subject(one: One, way: Way) -> str:
    # Mirrors have no .run packages.
    instead = "" if isinstance(one, AskedRun) else way.instead(one.key[0])
    return " ".join(filter(None, one.key)) + instead


def _otherwise(one: One, given: Collection[str]) -> str:
    """Return what becomes of something that the lock says nothing of: a commit in full is known without an answer."""
    if not isinstance(one, AskedRef):
        return "not known"
    if not is_commit(one.ref):
        read = any(name in given for name in names(one))
        return "its commit is not known; what it asks for is read in its checkout (--source)" if read else "not known"
    return "taken as it is, but its submodules are not known" if one.submodules else "taken as it is"


def _by_reason(unreached: Sequence[Unreached]) -> str:
    """Return what gave no answer, under its reason: one cause is told once."""
    reasons: dict[str, list[str]] = {}
    for one in unreached:
        reasons.setdefault(one.reason, []).append(f"  {one}")
    return "\n".join("\n".join([reason, *lines]) for reason, lines in reasons.items())


def _once(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, texts)))
