"""What each source asks for: its declared files at the pinned commit, or in a local checkout, none of it run."""

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput, LookupIncomplete, MissingTool, unknown
from ascend_images.files import read_regular, write_atomic
from ascend_images.lock.demands import Demand, Kind, parse_requirement
from ascend_images.lock.requirement_files import project_name, pyproject_file, requirement_file
from ascend_images.pins.addresses import masked
from ascend_images.pins.variant import Checkout, Variant

_COMMIT = re.compile(r"^[0-9a-f]{40}$")
_GIT_TIMEOUT = 300


class Files(Protocol):
    """The files of one source."""

    def read(self, path: str) -> str:
        """Return a file's text; raises BadInput where there is none, LookupIncomplete where it cannot be asked."""


@dataclass(frozen=True)
class LocalCheckout:
    """A checkout on this machine, its working tree as it is."""

    source: str
    folder: Path

    def read(self, path: str) -> str:
        """Return a file's text; raises BadInput where there is none."""
        try:
            if not (self.folder / path).resolve().is_relative_to(self.folder.resolve()):
                raise _no_file(self.source, path, str(self.folder))
            return read_regular(self.folder / path).decode()
        except (OSError, ValueError):
            raise _no_file(self.source, path, str(self.folder)) from None


@dataclass(frozen=True)
class RemoteCommit:
    """One commit in a repository elsewhere; of its content only the files that are read are fetched.

    `instead_of` replaces beginnings of addresses (a mirror). Files of a full commit are kept in `cache` for ever.
    """

    source: str
    git: str
    revision: str
    cache: Path
    instead_of: Mapping[str, str] = field(default_factory=dict)

    def read(self, path: str) -> str:
        """Return a file's text; raises BadInput where there is none, LookupIncomplete where it cannot be fetched."""
        kept = self._kept(path)
        if kept.is_file():
            return kept.read_text(encoding="utf-8")
        if not self._is_fetched():
            self._fetch()
        shown = self._git("show", f"{self._fetched_ref}:{path}")
        if shown.returncode:
            if "not exist" in shown.stderr or "exists on disk, but not in" in shown.stderr:
                raise _no_file(self.source, path, f"{self.git} at {self.revision}")
            raise self._incomplete(shown.stderr)
        if _COMMIT.match(self.revision):
            write_atomic(kept, shown.stdout)
        return shown.stdout

    @property
    def _repository(self) -> Path:
        return self.cache / "git" / hashlib.sha256(self.git.encode()).hexdigest()[:20]

    @property
    def _fetched_ref(self) -> str:
        return self.revision if _COMMIT.match(self.revision) else "FETCH_HEAD"

    def _kept(self, path: str) -> Path:
        key = hashlib.sha256(f"{self.git}|{self.revision}|{path}".encode()).hexdigest()[:32]
        return self.cache / "files" / key

    def _is_fetched(self) -> bool:
        if not _COMMIT.match(self.revision) or not self._repository.is_dir():
            return False
        return self._git("cat-file", "-e", f"{self.revision}^{{commit}}", lazy=False).returncode == 0

    def _fetch(self) -> None:
        if not (self._repository / "HEAD").is_file():
            self._repository.mkdir(parents=True, exist_ok=True)
            self._git("init", "--bare", "--quiet")
            self._git("config", "remote.origin.url", self.git)
            # Which remote the missing files of a commit are fetched from when one of them is read.
            self._git("config", "remote.origin.promisor", "true")
            self._git("config", "remote.origin.partialclonefilter", "blob:none")
        self._require_https()
        fetched = self._git("fetch", "--quiet", "--no-tags", "--depth=1", "--filter=blob:none", "origin", self.revision)
        if fetched.returncode:
            raise self._incomplete(fetched.stderr)

    @cached_property
    def _address(self) -> str:
        """The address that git asks in the end: mirrors, and what the user's own configuration replaces, put in."""
        said = self._run(self._settings, {}, "ls-remote", "--get-url", self.git)
        return said.stdout.strip() if said.returncode == 0 else self.git

    @property
    def _settings(self) -> dict[str, str]:
        replaced = {f"url.{replacement}.insteadOf": prefix for prefix, replacement in self.instead_of.items()}
        return {"http.sslVerify": "true", "gc.auto": "0", **replaced}

    def _require_https(self) -> None:
        """Raise BadInput where what began as https ends elsewhere by a setting of the user's git."""
        if self.git.startswith("https://") and not self._address.startswith(("https://", "file://")):
            raise BadInput(
                f"{self.source}: git asks {masked(self._address)} in place of {self.git}",
                wanted="an https address: TLS stays on, with your company's CA if need be",
                do="git config --show-origin --get-regexp insteadof",
            )

    def _git(self, *arguments: str, lazy: bool = True) -> subprocess.CompletedProcess[str]:
        # A setting for one address counts before the general one, so it has to be given too.
        settings = {**self._settings, f"http.{self._address}.sslVerify": "true"}
        environment = {}
        if self._address.startswith("https://"):
            # Redirections too.
            environment["GIT_ALLOW_PROTOCOL"] = "https"
        if not lazy:
            environment["GIT_NO_LAZY_FETCH"] = "1"
        return self._run(settings, environment, *arguments)

    def _run(
        self, settings: Mapping[str, str], more: Mapping[str, str], *arguments: str
    ) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "GIT_SSL_NO_VERIFY"}
        environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **more}
        environment |= configuration(settings, environment)
        try:
            return subprocess.run(
                ["git", *arguments],
                cwd=self._repository,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_GIT_TIMEOUT,
                check=False,
            )
        except FileNotFoundError:
            raise MissingTool("git is not installed", do="install git") from None
        except subprocess.TimeoutExpired:
            raise self._incomplete(f"no answer within {_GIT_TIMEOUT} s") from None

    def _incomplete(self, why: str) -> LookupIncomplete:
        last = [line for line in why.splitlines() if line.strip()][-1:] or ["no answer"]
        return LookupIncomplete(
            f"{self.source}: {self.git} at {self.revision} could not be read: {masked(last[0].strip())}",
            wanted="the files that say what it needs",
            do=f"read them from a checkout on this machine: --source {self.source}=DIR",
        )


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


def _no_file(source: str, path: str, place: str) -> BadInput:
    return BadInput(
        f"{source}: {place} has no file {path}",
        wanted=f"the files that `requirements` of sources.{source} names",
        do="mend `requirements` or `ref` of that source",
    )


def local_checkouts(variant: Variant, folders: Mapping[str, Path]) -> dict[str, LocalCheckout]:
    """Return the checkouts that `--source name=DIR` named; raises BadInput for one that is not that project's."""
    known = {source.name: source for source in variant.sources}
    for name in folders:
        if name not in known:
            raise unknown("source", name, known, where=f"variant {variant.name}")
    return {name: _checked(known[name], folder) for name, folder in folders.items()}


def _checked(source: Checkout, folder: Path) -> LocalCheckout:
    wanted = f"a git checkout of {source.git}"
    if not folder.is_dir():
        raise BadInput(f"--source {source.name}={folder}: no such directory", wanted=wanted)
    if not (folder / ".git").exists():
        raise BadInput(f"--source {source.name}={folder}: not a git checkout", wanted=wanted)
    checkout = LocalCheckout(source.name, folder)
    pyproject = folder / "pyproject.toml"
    named = project_name(checkout.read("pyproject.toml")) if pyproject.is_file() else ""
    if named and named == canonicalize_name(source.distribution or source.name):
        return checkout
    if not _has_module(source.module, folder):
        of = f', it is of "{named}"' if named else f": it has no {source.module.replace('.', '/')}"
        raise BadInput(f"--source {source.name}={folder}: a checkout of another project{of}", wanted=wanted)
    return checkout


def _has_module(module: str, folder: Path) -> bool:
    inside = PurePosixPath(*module.split("."))
    return any((folder / root / inside).is_dir() or (folder / root / f"{inside}.py").is_file() for root in ("", "src"))


def read_demands(
    variant: Variant, folders: Mapping[str, Path], cache: Path, instead_of: Mapping[str, str]
) -> dict[str, tuple[Demand, ...]]:
    """Return what each source of the variant asks for, by source name, in the order of the sources.

    Raises BadInput for files that cannot be meant and one LookupIncomplete for all that could not be fetched.
    """
    local = local_checkouts(variant, folders)
    found: dict[str, tuple[Demand, ...]] = {}
    failures: list[LookupIncomplete] = []
    for source in variant.sources:
        files: Files = local.get(source.name) or RemoteCommit(
            source.name, source.git, source.revision, cache, instead_of
        )
        try:
            found[source.name] = source_demands(source, files)
        except LookupIncomplete as error:
            failures.append(error)
    if failures:
        raise LookupIncomplete(
            "\n".join(error.found for error in failures),
            wanted="the files that say what these sources need",
            do="read them from checkouts on this machine: "
            + " ".join(error.do.partition(": ")[2] for error in failures),
        )
    return found


def source_demands(source: Checkout, files: Files) -> tuple[Demand, ...]:
    """Return what one source asks for to run and, where it is built, to be built."""
    built = source.install == "editable"
    demands: list[Demand] = []
    for path in source.requirements:
        if PurePosixPath(path).name == "pyproject.toml":
            demands += pyproject_file(source.name, path, files.read, built=built)
        else:
            demands += requirement_file(source.name, path, files.read)
    demands += _written(source.name, "declares", source.declares, Kind.RUN)
    if built:
        demands += _written(source.name, "build_requires", source.build_requires, Kind.BUILD)
        if not any(demand.kind is Kind.BUILD for demand in demands):
            demands.append(Demand(source.name, Requirement("setuptools"), "its setup.py", Kind.BUILD))
    return tuple(demands)


def _written(name: str, key: str, lines: Sequence[str], kind: Kind) -> list[Demand]:
    where = f"versions.toml sources.{name}.{key}"
    return [Demand(name, parse_requirement(line, where), where, kind) for line in lines]
