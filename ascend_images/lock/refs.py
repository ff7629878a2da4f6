"""What a pinned ref means: a tag, a branch or a commit at its remote, weighed against what was known of it."""

import difflib
import re
from dataclasses import dataclass, replace
from datetime import date

import msgspec

from ascend_images.errors import BadInput
from ascend_images.lock.git import GitHost, Refs
from ascend_images.lock.reach import MovedError, Outcome, UnreachableError, listed
from ascend_images.lock.way import DIRECTLY, Way
from ascend_images.pins.addresses import holds_login
from ascend_images.pins.questions import AskedRef, is_commit
from ascend_images.pins.versions_lock import Kind, LockedRef

LISTED = "git ls-remote"
FETCHED = "git fetch"

_SHORTENED = re.compile(r"[0-9a-fA-F]{4,40}")
_NEAR = 4


@dataclass(frozen=True)
class Meaning:
    """What a name means at a remote; `note` where a person may have meant another thing."""

    kind: Kind
    commit: str
    note: str = ""


def meaning(refs: Refs, ref: str) -> Meaning | None:
    """Return what `ref` means, None where nothing has that name.

    Of a tag and a branch the tag is meant, as with git; `refs/heads/…` and `refs/tags/…` name one of the two.
    """
    name, only_branch = ref.removeprefix("refs/heads/"), ref.startswith("refs/heads/")
    tag = None if only_branch else refs.tags.get(ref.removeprefix("refs/tags/"))
    branch = None if ref.startswith("refs/tags/") else refs.branches.get(name)
    if tag is None:
        return Meaning("branch", branch) if branch else None
    note = f"{ref} is a tag and a branch: the tag is taken; the branch is refs/heads/{ref}" if branch else ""
    return Meaning("annotated tag" if tag.annotated else "tag", tag.commit, note)


def near_names(refs: Refs, ref: str) -> tuple[str, ...]:
    """Return the tags and branches whose names are near to `ref`, those first that begin most alike."""
    near = difflib.get_close_matches(ref, sorted({*refs.tags, *refs.branches}), n=_NEAR, cutoff=0.5)
    return tuple(sorted(near, key=lambda name: _alike(ref, name), reverse=True))


def _alike(one: str, other: str) -> int:
    """Return how many characters two names begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((number for number, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


@dataclass(frozen=True)
class Known:
    """What the lock says of a ref before it is asked, and by way of what; `renew`: another answer is taken."""

    asked: AskedRef
    old: LockedRef | None
    today: date
    renew: bool
    way: Way = DIRECTLY

    @property
    def commit(self) -> str:
        """The commit it is held to, or nothing."""
        return self.old.commit if self.old else ""

    @property
    def place(self) -> str:
        """How messages call it."""
        return f"{self.way.told(self.asked.repository)}: {self.asked.ref}"

    @property
    def name(self) -> str:
        """The source that asks for it first: what `--update` calls it."""
        return self.asked.pins[0].removeprefix("sources.")

    def entry(self, kind: Kind, commit: str, how: str) -> LockedRef:
        """Return the entry that says this: the old one where it says the same."""
        old = self.old if self.old and self.old.commit == commit else None
        if old and (old.kind, old.how) == (kind, how):
            return old
        return LockedRef(
            repository=self.asked.repository,
            ref=self.asked.ref,
            kind=kind,
            commit=commit,
            learned=self.today,
            how=how,
            submodules=old.submodules if old else None,
        )

    def refused(self, found: str, *, wanted: str = "", do: str = "") -> Outcome[LockedRef]:
        """Return the outcome that something is wrong; what was locked stays."""
        return Outcome(entry=self.old, problem=BadInput(f"{self.place}: {found}", wanted=wanted, do=do))


def settle_ref(known: Known, refs: Refs | None, host: GitHost) -> Outcome[LockedRef]:
    """Return what comes of asking for a ref; `refs` is what its repository has, None where only a commit is asked for.

    Raises UnreachableError where the remote gave no answer about its commit.
    """
    asked = known.asked
    outcome = _commit(known, host) if is_commit(asked.ref) or refs is None else _named(known, refs, host)
    entry = outcome.entry
    if entry is not None and any(holds_login(one.url) for one in entry.submodules or ()):
        # As an earlier version wrote it: read again, and refused, it is not published any longer.
        entry = msgspec.structs.replace(entry, submodules=None)
        outcome = replace(outcome, entry=entry)
    if outcome.problem or entry is None or not asked.submodules or entry.submodules is not None:
        return outcome
    return _with_submodules(outcome, entry, known, host)


def _with_submodules(outcome: Outcome[LockedRef], entry: LockedRef, known: Known, host: GitHost) -> Outcome[LockedRef]:
    """Return the outcome with the submodules of its commit; the commit counts also where they cannot be read."""
    try:
        found = host.submodules(entry.repository, entry.commit)
    except UnreachableError as error:
        return Outcome(entry=entry, unreached=f"its submodules: {error}", notes=outcome.notes)
    except BadInput as problem:
        return Outcome(entry=entry, problem=problem, notes=outcome.notes)
    whole = msgspec.structs.replace(entry, submodules=found, learned=known.today)
    return Outcome(entry=whole, notes=outcome.notes)


def _commit(known: Known, host: GitHost) -> Outcome[LockedRef]:
    ref = known.asked.ref
    found = host.fetched(known.asked.repository, ref)
    if not found:
        return known.refused(
            "not found on the remote",
            wanted="a commit that this repository gives, as the build fetches it by its id",
            do=f"mend sources.{known.name}.ref in versions.toml, or its `git`",
        )
    if found != ref:
        return known.refused(
            "the id of a tag, not of a commit",
            wanted=f"the commit that it leads to, {found}, or the tag's name",
            do=f"write it to sources.{known.name}.ref in versions.toml",
        )
    return Outcome(entry=known.entry("commit", ref, FETCHED))


def _named(known: Known, refs: Refs, host: GitHost) -> Outcome[LockedRef]:
    found = meaning(refs, known.asked.ref)
    if found is None:
        return _gone(known, refs, host) if known.commit else _missing(known, refs)
    notes = (f"{known.way.told(known.asked.repository)}: {found.note}",) if found.note else ()
    if known.old is None or found.commit == known.commit or known.renew:
        return Outcome(entry=known.entry(found.kind, found.commit, LISTED), notes=notes)
    if found.kind == known.old.kind == "branch":
        return _branch_moved(known, found, host)
    return Outcome(entry=known.old, problem=_moved(known, found), notes=notes)


def _moved(known: Known, found: Meaning) -> MovedError:
    return MovedError(
        f"{known.place}: this {found.kind} was {known.commit} and is {found.commit} now",
        wanted="the commit in versions.lock: a tag that moves is another release under an old name",
        do=f"see what changed; then take it: invoke lock --variant {known.asked.variants[0]} --update {known.name}",
    )


def _branch_moved(known: Known, found: Meaning, host: GitHost) -> Outcome[LockedRef]:
    """Return what comes of a branch that went on: its commit is kept, as long as the build can fetch it."""
    update = f"take it: invoke lock --variant {known.asked.variants[0]} --update {known.name}"
    if host.fetched(known.asked.repository, known.commit) != known.commit:
        return known.refused(
            f"the branch is at {found.commit}, and its remote gives the commit {known.commit} no longer",
            wanted="a commit that the build can fetch",
            do=update,
        )
    note = f"{known.place}: the branch went on to {found.commit[:12]}; {known.commit[:12]} is kept ({update})"
    return Outcome(entry=known.old, notes=(note,))


def _gone(known: Known, refs: Refs, host: GitHost) -> Outcome[LockedRef]:
    """Return what comes of a ref that was known and is gone: its commit is kept, as long as the build can fetch it."""
    near = _near(refs, known.asked.ref)
    if host.fetched(known.asked.repository, known.commit) != known.commit:
        return known.refused(
            f"not found on the remote any more, and neither is its commit {known.commit}",
            wanted=near,
            do=f"pin another ref: sources.{known.name}.ref in versions.toml",
        )
    note = (
        f"{known.place}: not found on the remote any more; its commit {known.commit[:12]} still is, and is kept. "
        f"Pin another ref before that goes too"
    )
    return Outcome(entry=known.old, notes=(note,))


def _missing(known: Known, refs: Refs) -> Outcome[LockedRef]:
    ref = known.asked.ref
    do = f"mend sources.{known.name}.ref in versions.toml"
    if ref.startswith("refs/") and not ref.startswith(("refs/heads/", "refs/tags/")):
        return known.refused(
            "neither a tag nor a branch", wanted="a tag, a branch or a commit in full", do=do + ": write its commit"
        )
    if _SHORTENED.fullmatch(ref):
        commits = {tag.commit for tag in refs.tags.values()} | set(refs.branches.values())
        full = sorted(commit for commit in commits if commit.startswith(ref.lower()))
        return known.refused(
            "not found on the remote as a tag or a branch, and no commit in full: a shortened one means another "
            "commit as soon as there are more",
            wanted="all 40 digits, in small letters" + (f": {listed(full)}" if full else ""),
            do=do,
        )
    return known.refused("not found on the remote", wanted=_near(refs, ref), do=do)


def _near(refs: Refs, ref: str) -> str:
    near = near_names(refs, ref)
    if near:
        return f"a tag or a branch that is there; near to it: {', '.join(near)}"
    return f"a tag or a branch that is there: it has {len(refs.tags)} tags and {len(refs.branches)} branches"
