"""Git hosts asked through the ordinary git client: refs, single commits and what they hold; nothing is checked out."""

import fcntl
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ascend_images import gentle
from ascend_images.errors import BadInput, MissingTool
from ascend_images.git_environment import without_repository
from ascend_images.lock.kept import own_folder
from ascend_images.lock.reach import UnreachableError, plain_reason
from ascend_images.pins.addresses import holds_login, masked, parts_of
from ascend_images.pins.questions import is_commit
from ascend_images.pins.versions_lock import Submodule

#: Seconds for one question; a host that sends next to nothing for half a minute is given up sooner.
_TIMEOUT = 300
_SETTINGS = {
    "http.sslVerify": "true",
    "http.lowSpeedLimit": "500",
    "http.lowSpeedTime": "30",
    "gc.auto": "0",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
}
#: What git holds in a bare repository while it makes one or fetches; one that was killed leaves them there for ever.
_GITS_LOCKS = ("shallow.lock", "config.lock", "HEAD.lock")
_REF_LINE = re.compile(r"^(?P<id>[0-9a-f]{40})\trefs/(?P<table>tags|heads)/(?P<name>.+?)(?P<peeled>\^\{\})?$")
_NO_FILE = ("does not exist in", "exists on disk, but not in")
_NOT_THERE = ("not our ref", "couldn't find remote ref", "unadvertised object", "no such remote ref")
#: How deep submodules of submodules are followed.
_DEPTH = 8


class _NotOnRemoteError(BadInput):
    """The remote answered that it does not have a revision."""


@dataclass(frozen=True)
class Tag:
    """A tag: the commit it leads to, and whether by way of an object of its own."""

    commit: str
    annotated: bool = False


@dataclass(frozen=True)
class Refs:
    """The tags and branches of a repository by name."""

    tags: Mapping[str, Tag]
    branches: Mapping[str, str]


class GitHost(Protocol):
    """What is asked of git hosts; each question raises UnreachableError where there is no answer."""

    def refs(self, repository: str) -> Refs:
        """Return the tags and branches there are now."""

    def fetched(self, repository: str, object_id: str) -> str:
        """Return the commit that fetching an object by its id gives, empty where the remote does not give it."""

    def submodules(self, repository: str, commit: str) -> tuple[Submodule, ...]:
        """Return the submodules of a commit, those of submodules after their parent; raises BadInput."""


def parse_refs(text: str) -> Refs:
    """Read what `git ls-remote --tags --heads` prints; raises UnreachableError for anything else."""
    tags: dict[str, Tag] = {}
    branches: dict[str, str] = {}
    for line in text.split("\n"):
        match = _REF_LINE.match(line)
        if match is None:
            if line:
                raise UnreachableError(f"an answer that git does not give: {line[:80]}")
        elif match["table"] == "heads":
            branches[match["name"]] = match["id"]
        elif match["peeled"]:
            tags[match["name"]] = Tag(match["id"], annotated=True)
        else:
            tags.setdefault(match["name"], Tag(match["id"]))
    return Refs(tags, branches)


@dataclass(frozen=True)
class GitClient:
    """The git of this machine. `instead_of` replaces beginnings of addresses (a mirror); `cache` keeps commits."""

    cache: Path
    instead_of: Mapping[str, str] = field(default_factory=dict)
    timeout: float = _TIMEOUT

    def refs(self, repository: str) -> Refs:
        """Return the tags and branches there are now; raises UnreachableError."""
        asked = self._run(repository, "ls-remote", "--tags", "--heads", "--", repository)
        if asked.returncode:
            raise UnreachableError(plain_reason(asked.stderr))
        return parse_refs(asked.stdout)

    def fetched(self, repository: str, object_id: str) -> str:
        """Return the commit that fetching an object gives; from nothing, since a commit kept here proves nothing."""
        with tempfile.TemporaryDirectory(prefix="ascend-images-") as name:
            folder = Path(name)
            self._local(folder, "init", "--bare", "--quiet")
            fetch = ("fetch", "--quiet", "--no-tags", "--depth=1", "--filter=tree:0", "--", repository, object_id)
            asked = self._run(repository, *fetch, folder=folder)
            if asked.returncode:
                if _is_not_there(asked.stderr):
                    return ""
                raise UnreachableError(plain_reason(asked.stderr))
            return self._local(folder, "rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}").stdout.strip()

    def file(self, repository: str, revision: str, path: str) -> str | None:
        """Return the text of a file at a commit or at a ref as it is now, None where there is no such file.

        Raises UnreachableError, for a revision that the remote does not have as well.
        """
        try:
            with self._kept(repository, revision) as (folder, commit):
                shown = self._run(repository, "show", f"{commit}:{path}", folder=folder)
        except _NotOnRemoteError:
            raise UnreachableError("not found on the remote") from None
        if shown.returncode == 0:
            # Lines as Python reads them from a file: what reads these files knows no other ends.
            return shown.stdout.replace("\r\n", "\n").replace("\r", "\n")
        if any(words in shown.stderr for words in _NO_FILE):
            return None
        raise UnreachableError(plain_reason(shown.stderr))

    def submodules(self, repository: str, commit: str) -> tuple[Submodule, ...]:
        """Return the submodules of a commit and theirs; raises UnreachableError, and BadInput for what git refuses."""
        return tuple(self._submodules(repository, commit, "", _DEPTH))

    def _submodules(self, repository: str, commit: str, above: str, depth: int) -> Iterator[Submodule]:
        if not depth:
            raise BadInput(f"{masked(repository)} at {commit}: submodules lie more than {_DEPTH} deep in one another")
        with self._kept(repository, commit) as (folder, _):
            links = _gitlinks(self._must(repository, folder, "ls-tree", "-r", "-z", "--full-tree", commit).stdout)
            addresses = self._addresses(repository, folder, commit) if links else {}
        for path, linked in links.items():
            if path not in addresses:
                raise BadInput(
                    f"{masked(repository)} at {commit[:12]}: .gitmodules has no address for the submodule {path}",
                    wanted="an address for each submodule: without one git fetches none of them",
                    do="pin another ref of that source, or set its `submodules` to false",
                )
            url = submodule_url(addresses[path], repository, path)
            where = f"{masked(repository)}: submodule {path}"
            # First of all: what follows gives the address to other programs, in whose arguments everybody may read it.
            _check_login(url, where)
            _check_scheme(self._address(url), self._address(repository), where)
            yield Submodule(path=above + path, url=url, commit=linked)
            yield from self._submodules(url, linked, f"{above}{path}/", depth - 1)

    def _addresses(self, repository: str, folder: Path, commit: str) -> dict[str, str]:
        """Return the address of each submodule by its path, as .gitmodules says it."""
        # An absent file is an answer (exit code 1): a link that nothing says the address of.
        listed = self._run(repository, "config", "-z", "--blob", f"{commit}:.gitmodules", "--list", folder=folder)
        sections: dict[str, dict[str, str]] = {}
        for entry in listed.stdout.split("\0"):
            key, _, value = entry.partition("\n")
            table, _, rest = key.partition(".")
            name, _, field_name = rest.rpartition(".")
            if table == "submodule":
                sections.setdefault(name, {})[field_name] = value
        return {
            section["path"].rstrip("/"): section["url"]
            for section in sections.values()
            if "path" in section and "url" in section
        }

    @contextmanager
    def _kept(self, repository: str, revision: str) -> Iterator[tuple[Path, str]]:
        """Give the bare repository in the cache that holds a commit, one deep and without files, and its name there.

        A ref is fetched each time. Raises _NotOnRemoteError, which is a BadInput.
        """
        folder = own_folder(self.cache / "git") / hashlib.sha256(repository.encode()).hexdigest()[:20]
        folder.mkdir(exist_ok=True)
        with (folder / "ascend-images.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Whoever left them is gone: the folder is ours now.
            for name in _GITS_LOCKS:
                (folder / name).unlink(missing_ok=True)
            if not (folder / "HEAD").is_file():
                self._local(folder, "init", "--bare", "--quiet")
                self._local(folder, "config", "remote.origin.promisor", "true")
                self._local(folder, "config", "remote.origin.partialclonefilter", "blob:none")
            commit = is_commit(revision)
            has = commit and self._local(folder, "cat-file", "-e", f"{revision}^{{tree}}", must=False).returncode == 0
            if not has:
                fetch = ("fetch", "--quiet", "--no-tags", "--depth=1", "--filter=blob:none", "origin", revision)
                self._must(repository, folder, *fetch)
            yield folder, revision if commit else "FETCH_HEAD"

    def _must(self, repository: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = self._run(repository, *arguments, folder=folder)
        if done.returncode and _is_not_there(done.stderr):
            raise _NotOnRemoteError(
                f"{masked(repository)}: {arguments[-1]}: not found on the remote",
                wanted="a commit that the build can fetch",
                do="pin another ref of the source that leads to it",
            )
        if done.returncode:
            raise UnreachableError(f"{masked(repository)}: {plain_reason(done.stderr)}")
        return done

    def _local(self, folder: Path, *arguments: str, must: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command that needs no network; raises MissingTool where it fails all the same: the disk, the client."""
        # Nor may it fetch what is missing by itself, on a way that nothing was said of.
        done = self._start(self._settings, {"GIT_NO_LAZY_FETCH": "1"}, *arguments, folder=folder)
        if must and done.returncode:
            raise MissingTool(f"git {arguments[0]} in {folder} failed: {plain_reason(done.stderr)}", do=f"ls {folder}")
        return done

    def _run(self, repository: str, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run git on the way to a repository: as https all along, where it begins so."""
        address = self._address(repository)
        if repository.startswith("https://") and not address.startswith(("https://", "file://")):
            raise BadInput(
                f"git asks {masked(address)} in place of {masked(repository)}",
                wanted="an https address: TLS stays on, with your company's CA if need be",
                do="git config --show-origin --get-regexp insteadof",
            )
        # Redirections too.
        more = {"GIT_ALLOW_PROTOCOL": "https"} if address.startswith("https://") else {}
        # A setting for one address counts before the general one, so it has to be given too.
        settings = {**self._settings, f"http.{address}.sslVerify": "true"}
        if folder:
            # Here and not in the folder's own file: an address may hold a password, and that would stay.
            settings["remote.origin.url"] = repository
        return self._start(settings, more, *arguments, folder=folder)

    @property
    def _settings(self) -> dict[str, str]:
        return {**_SETTINGS, **{f"url.{place}.insteadOf": prefix for prefix, place in self.instead_of.items()}}

    def _address(self, repository: str) -> str:
        """Return the address that git asks in the end: mirrors, and what the user's own settings replace, put in."""
        said = self._start(self._settings, {}, "ls-remote", "--get-url", "--", repository)
        return said.stdout.strip() if said.returncode == 0 else repository

    def _start(
        self, settings: Mapping[str, str], more: Mapping[str, str], *arguments: str, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = without_repository(os.environ)
        environment.pop("GIT_SSL_NO_VERIFY", None)
        environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **more}
        environment |= configuration(settings, environment)
        environment.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
        try:
            # Not killed: git would leave its locks in the kept repository.
            return gentle.run(["git", *arguments], folder=folder, environment=environment, limit=self.timeout)
        except subprocess.TimeoutExpired:
            raise UnreachableError("no answer in time") from None


def configuration(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that give git `settings` (2.31 on), after those that `environment` gives it already.

    Unlike with `-c`, a key may hold an equals sign there, as addresses do.
    """
    given = environment.get("GIT_CONFIG_COUNT", "")
    first = int(given) if given.isdecimal() else 0
    variables = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (key, value) in enumerate(settings.items(), start=first):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def submodule_url(written: str, repository: str, path: str) -> str:
    """Return the address of a submodule, a relative one against its repository's as git does; raises BadInput."""
    rest, base = written, repository.rstrip("/")
    while rest.startswith(("./", "../")):
        if rest.startswith("../"):
            base = base.rpartition("/")[0]
        rest = rest.partition("/")[2]
    if rest == written:
        return written
    url = f"{base}/{rest}"
    if "://" in repository and _host(url) != _host(repository):
        raise BadInput(
            f"{masked(repository)}: the address {masked(written)} of its submodule {path} leads out of its host",
            do="pin another ref of that source, or set its `submodules` to false",
        )
    return url


def _check_login(url: str, where: str) -> None:
    """Raise BadInput where the address of a submodule holds what nobody else may read."""
    if holds_login(url):
        raise BadInput(
            f"{where} is fetched from {masked(url)}, which holds a user or a password",
            wanted="an address without: versions.lock holds it, which is published",
            do="pin a ref of that source whose .gitmodules has none, or set its `submodules` to false",
        )


def _check_scheme(url: str, repository: str, where: str) -> None:
    """Raise BadInput where a submodule would be fetched over a weaker way than its repository."""
    scheme = _host(url)[0] if "://" in url else "ssh" if re.match(r"[\w.-]+@[\w.-]+:", url) else ""
    if scheme not in ("https", "ssh", _host(repository)[0]):
        raise BadInput(
            f"{where} is fetched from {masked(url)}",
            wanted="an https address: TLS stays on",
            do='name a mirror that has it: [mirror.NAME] git = { "<its beginning>" = "https://…" }, then --mirror NAME',
        )


def _host(url: str) -> tuple[str, str]:
    """Return scheme and host of an address; nothing of a text that is none."""
    parts = parts_of(url)
    return (parts.scheme, parts.netloc) if parts else ("", "")


def _is_not_there(said: str) -> bool:
    return any(words in said for words in _NOT_THERE)


def _gitlinks(text: str) -> dict[str, str]:
    """Return the commit of each submodule by path, from what `git ls-tree -r -z` prints."""
    links = {}
    for entry in text.split("\0"):
        head, _, path = entry.partition("\t")
        words = head.split()
        if len(words) == 3 and words[1] == "commit":
            links[path] = words[2]
    return links
