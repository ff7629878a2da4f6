"""Local checkouts that stand in for a variant's git sources: looked at on this machine, then copied for the build."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from ascend_images.errors import BadInput, MissingTool, unknown
from ascend_images.files import read_regular
from ascend_images.git_environment import without_repository
from ascend_images.pins.addresses import masked
from ascend_images.pins.variant import Checkout, Variant
from ascend_images.toml_text import NotTomlError, read_toml

_GIT_SECONDS = 600  # copying the objects of one commit of a large project from a slow disk
_PROJECT_FILES = ("pyproject.toml", "setup.cfg", "setup.py")


@dataclass(frozen=True)
class LocalSource:
    """A checkout on this machine that replaces the source of that name; `dirty` if it holds more than its commit."""

    name: str
    folder: Path
    commit: str
    dirty: bool
    git: str
    submodules: bool

    @property
    def stage(self) -> str:
        """The stage of a rendered file that it replaces."""
        return f"src-{self.name.lower()}"

    @property
    def description(self) -> str:
        """Its commit, and `+dirty` where the files are not just that."""
        return f"{self.commit}+dirty" if self.dirty else self.commit


def local_sources(variant: Variant, given: Mapping[str, Path]) -> tuple[LocalSource, ...]:
    """Return the checkouts that replace sources of `variant`, by source name (in any case) and folder.

    Raises BadInput for a source the variant lacks, a folder that is no git checkout's root, and one of another project.
    """
    by_name = {source.name.lower(): source for source in variant.sources}
    found = []
    for name, folder in given.items():
        source = by_name.get(name.lower())
        if source is None:
            raise unknown(
                "source", name, (known.name for known in variant.sources), where=f"--source for {variant.name}"
            )
        found.append(local_source(source, folder))
    return tuple(found)


def local_source(source: Checkout, folder: Path) -> LocalSource:
    """Return the checkout in `folder` as a replacement of `source`; raises BadInput if it cannot be one."""
    top = folder.resolve()
    _require_checkout(source, top)
    _require_project(source, top)
    commit = _git(top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if commit is None:
        raise BadInput(
            f"--source {source.name}={folder}: the checkout has no commit",
            wanted="a checkout of " + source.git,
            do=f"git clone {source.git}",
        )
    return LocalSource(
        name=source.name,
        folder=top,
        commit=commit,
        # Ignored files are left out of the copy, so they do not count; new ones do.
        dirty=bool(_git(top, "status", "--porcelain", "--untracked-files=normal")),
        git=source.git,
        submodules=source.submodules,
    )


def stage_source(source: LocalSource, folder: Path) -> Path:
    """Copy the checkout as the build would have fetched it, and return where: a folder below `folder`.

    That is one commit deep, with `.git`, the files as they lie there and submodules filled in. Files that git ignores
    stay behind, since they are build remains, environments and keys; so does a `.dockerignore` at the top, which
    BuildKit would obey, dropping files (or `.git`) from a context that replaces a stage. Raises BadInput if git fails.
    """
    target = staged_path(source, folder)
    folder.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder, prefix=".copy-"))
    try:
        _copy_checkout(source, source.folder, work, source.git)
        if source.submodules:
            _copy_submodules(source, work)
        (work / ".dockerignore").unlink(missing_ok=True)
        work.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def staged_path(source: LocalSource, folder: Path) -> Path:
    """Return where `stage_source` would put the copy, for showing what would be built."""
    return folder / f"{source.name.lower()}-{source.commit[:12]}{'-dirty' if source.dirty else ''}"


def _copy_checkout(source: LocalSource, origin: Path, target: Path, url: str) -> None:
    """Make `target` a checkout of `origin`'s HEAD, one commit deep, holding the files that lie in `origin` now."""
    commit = _must(source, origin, "rev-parse", "HEAD")
    _must(source, target, "init", "--quiet", "--template=")
    _must(source, target, "fetch", "--quiet", "--depth=1", "--no-tags", origin.as_uri(), "HEAD")
    _must(source, target, "update-ref", "--no-deref", "HEAD", commit)
    _must(source, target, "read-tree", "HEAD")
    _settle(source, target)
    if url:
        _must(source, target, "remote", "add", "origin", url)
    listed = _must(source, origin, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        _copy_file(origin / name, target / name)


def _settle(source: LocalSource, target: Path) -> None:
    """Leave in a fresh repository nothing that two copies of one commit differ in.

    A builder compares what it is given with what it has: it would install a source anew that nobody changed.
    """
    _must(source, target, "-c", "gc.auto=0", "-c", "pack.threads=1", "repack", "-adFnq")
    for name in ("logs", "objects/info"):
        shutil.rmtree(target / ".git" / name, ignore_errors=True)
    (target / ".git" / "FETCH_HEAD").unlink(missing_ok=True)


def _copy_file(origin: Path, target: Path) -> None:
    """Copy one file or link; what was deleted, and folders (submodules, nested checkouts), are left out."""
    if not origin.is_symlink() and not origin.is_file():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(origin, target, follow_symlinks=False)


def _copy_submodules(source: LocalSource, work: Path) -> None:
    listed = _git(source.folder, "config", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$") or ""
    for path in (line.partition(" ")[2] for line in listed.splitlines()):
        origin = source.folder / path
        target = work / path
        if not (_lies_in(origin, source.folder) and _lies_in(target, work)):
            raise BadInput(
                f"--source {source.name}={source.folder}: .gitmodules puts a submodule outside of the checkout: {path}",
                wanted="submodules below the checkout",
                do=f"git -C {source.folder} config --file .gitmodules --get-regexp path",
            )
        if not (origin / ".git").exists():
            raise BadInput(
                f"--source {source.name}={source.folder}: its submodule {path} is empty",
                wanted="submodules at their commits, as the build would fetch them",
                do=f"git -C {source.folder} submodule update --init {path}",
            )
        target.mkdir(parents=True, exist_ok=True)
        _copy_checkout(source, origin, target, _git(origin, "config", "--get", "remote.origin.url") or "")
    if listed:
        _must(source, work, "submodule", "--quiet", "init")
        _must(source, work, "submodule", "--quiet", "absorbgitdirs")


def _lies_in(path: Path, folder: Path) -> bool:
    """Say whether a path is below a folder, links followed."""
    return path.resolve() != folder.resolve() and path.resolve().is_relative_to(folder.resolve())


def _require_checkout(source: Checkout, top: Path) -> None:
    wanted = f"the top folder of a git checkout of {source.git}"
    if not top.is_dir():
        raise BadInput(
            f"--source {source.name}={top}: no such folder", wanted=wanted, do=f"git clone {source.git} {top}"
        )
    shown = _run_git(top, ["rev-parse", "--show-toplevel"])
    above = shown.stdout.strip("\n") if shown.returncode == 0 else None
    if above is None and "dubious ownership" in shown.stderr:
        raise BadInput(
            f"--source {source.name}={top}: the checkout belongs to another user, so git does not read it",
            wanted="a checkout of your own, or one that your git trusts",
            do=f"git config --global --add safe.directory {shlex.quote(str(top))}",
        )
    if above is None:
        raise BadInput(f"--source {source.name}={top}: not a git checkout", wanted=wanted, do=f"git clone {source.git}")
    if Path(above).resolve() != top:
        raise BadInput(
            f"--source {source.name}={top}: a folder inside a git checkout",
            wanted=wanted,
            do=f"--source {source.name}={above}",
        )


def _require_project(source: Checkout, top: Path) -> None:
    """Raise BadInput unless something shows that the checkout is of the source's project.

    Forks and renamed remotes are fine: its declared name, the name of a remote, the pinned commit among its objects
    or the source's package will each do.
    """
    names = {canonicalize_name(name) for name in (source.name, source.distribution, _repository(source.git)) if name}
    declared = declared_name(top)
    listed = _git(top, "config", "--get-regexp", r"^remote\..*\.url$") or ""
    remotes = [line.partition(" ")[2] for line in listed.splitlines()]
    if declared:
        same = declared in names
    else:
        package = source.module.replace(".", "/")
        places = (top / package, top / "src" / package) if package else ()
        same = any(place.is_dir() for place in places)
    same = same or any(canonicalize_name(_repository(url)) in names for url in remotes)
    if same or (source.commit and _git(top, "cat-file", "-e", f"{source.commit}^{{commit}}") is not None):
        return
    shown = [f"its project is called {declared}"] if declared else []
    shown += [f"its remote is {masked(url)}" for url in remotes]
    raise BadInput(
        f"--source {source.name}={top}: a checkout of another project ({'; '.join(shown) or 'no remote, no name'})",
        wanted=f"a checkout of {source.git}, or of a fork of it",
        do=f"git clone {source.git}",
    )


def declared_name(top: Path) -> str:
    """Return the normalised name that a project's pyproject.toml, setup.cfg or setup.py states, without running it."""
    for file in _PROJECT_FILES:
        try:
            text = read_regular(top / file).decode()
        except (OSError, UnicodeDecodeError):
            continue
        name = _name_in(file, text)
        if name:
            return canonicalize_name(name)
    return ""


def _name_in(file: str, text: str) -> str:
    if file == "pyproject.toml":
        try:
            return str(read_toml(text).get("project", {}).get("name", ""))
        except (NotTomlError, AttributeError):
            return ""
    pattern = r"(?m)^name\s*=\s*([\w.-]+)\s*$" if file == "setup.cfg" else r"\bname\s*=\s*[\"']([\w.-]+)[\"']"
    match = re.search(pattern, text)
    return match[1] if match else ""


def _repository(url: str) -> str:
    """Return the last part of a repository's address: `vllm` for https://github.com/me/vllm.git and me@host:x/vllm."""
    path = url.partition("://")[2].partition("/")[2] if "://" in url else url.rpartition(":")[2]
    return path.rstrip("/").rpartition("/")[2].removesuffix(".git")


def _must(source: LocalSource, folder: Path, *arguments: str) -> str:
    done = _run_git(folder, arguments)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise BadInput(
            f"--source {source.name}={source.folder}: git {arguments[0]} failed: {last[0]}",
            wanted="a checkout that git can read",
            do=f"git -C {source.folder} fsck",
        )
    return done.stdout.strip("\n")


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what a git command prints in `folder`, or None if it fails."""
    done = _run_git(folder, arguments)
    return done.stdout.strip("\n") if done.returncode == 0 else None


def _run_git(folder: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run git in a folder, whatever repository the caller's environment points to, and without touching the network."""
    environment = {
        **without_repository(os.environ),
        "GIT_OPTIONAL_LOCKS": "0",  # looking must not write to somebody's index
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "LC_ALL": "C",
    }
    command = ["git", "-C", str(folder), "-c", "protocol.file.allow=always", "-c", "core.quotePath=false", *arguments]
    try:
        return subprocess.run(
            command,
            capture_output=True,
            # Names of files need not be UTF-8.
            encoding="utf-8",
            errors="surrogateescape",
            timeout=_GIT_SECONDS,
            env=environment,
        )
    except FileNotFoundError:
        raise MissingTool("no git command on PATH", wanted="git, to read a checkout with", do="install git") from None
    except subprocess.TimeoutExpired:
        raise MissingTool(
            f"git {arguments[0]} in {folder} did not come back within {_GIT_SECONDS} s",
            wanted="a disk that can be read",
            do=f"git -C {shlex.quote(str(folder))} status",
        ) from None
