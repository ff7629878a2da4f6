"""Facts: which commit a git checkout is at, and what of it is not as that commit says.

Nothing that the checkout says of itself is believed but the commit's name, against which every object and every file
is hashed: its configuration, its index and its lists of exceptions may hide a change (core.fsmonitor, assume-unchanged,
info/exclude, refs/replace), and its configuration makes git start programs. git runs with a repository of our own,
which borrows the objects alone, and only where the image itself runs.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import posixpath
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from ..process import Ran, run
from ..tree import Tree, read_regular
from ..words import Facts, last_line

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REF = re.compile(r"refs/(?!.*\.\.)[^\s\0]+")
_LINK, _SUBMODULE, _FOLDER = 0o120000, 0o160000, 0o040000
# No checkout has a file of this many bytes; hashing what says that it has would take minutes.
_LARGEST = 1 << 30
_SECONDS = 120.0


class GitError(Exception):
    """A checkout's commit, or its objects, cannot be read; the text says why."""


@dataclass(frozen=True)
class Repository:
    """Where a checkout's git data lies in the image: its own, and what it shares with the other worktrees."""

    folder: str
    common: str


@dataclass(frozen=True)
class Entry:
    """A file of a commit: its mode as git writes it, and the name of its content."""

    mode: int
    name: str


def repository(tree: Tree, path: str) -> Repository | None:
    """Return the repository of a checkout, None where the folder holds none; a file `.git` says where it lies."""
    folder = f"{path}/.git"
    if not tree.is_dir(folder):
        said = (tree.text(folder, 4096) or "").strip()
        if not said.startswith("gitdir:"):
            return None
        folder = posixpath.normpath(posixpath.join(path, said.partition(":")[2].strip()))
    shared = (tree.text(f"{folder}/commondir", 4096) or "").strip()
    return Repository(folder, posixpath.normpath(posixpath.join(folder, shared)))


def head(tree: Tree, found: Repository) -> str:
    """Return the commit that a checkout is at, read from its files. Raises GitError."""
    text = (tree.text(f"{found.folder}/HEAD", 4096) or "").strip()
    for _ in range(5):
        if _COMMIT.fullmatch(text):
            return text
        name = text.partition("ref:")[2].strip()
        if not _REF.fullmatch(name):
            break
        loose = (tree.text(f"{place}/{name}", 4096) for place in (found.folder, found.common))
        text = next((said.strip() for said in loose if said), "") or _packed(tree, found, name)
    raise GitError(f"{found.folder}/HEAD names no commit")


def _packed(tree: Tree, found: Repository, name: str) -> str:
    """Return the commit of a ref in packed-refs, empty where it is not there."""
    for line in (tree.text(f"{found.common}/packed-refs") or "").splitlines():
        commit, _, ref = line.partition(" ")
        if ref.strip() == name:
            return commit
    return ""


class Objects:
    """A repository of our own in a temporary directory that borrows the objects of another; a context manager."""

    def __init__(self, objects: str, worktree: str, commit: str) -> None:
        self._objects = objects
        self.worktree = worktree
        self.commit = commit
        self.algorithm = "sha1" if len(commit) == 40 else "sha256"
        self._place = tempfile.TemporaryDirectory(prefix="git.")

    def __enter__(self) -> Objects:  # noqa: PYI034 (Self is in no typing of Python 3.9)
        folder = self._place.name
        for name in ("refs", "objects"):
            os.mkdir(f"{folder}/{name}")
        named = "" if self.algorithm == "sha1" else "[extensions]\n\tobjectformat = sha256\n"
        version = 1 if named else 0
        texts = {"HEAD": "ref: refs/heads/none\n", "config": f"[core]\n\trepositoryformatversion = {version}\n{named}"}
        for name, text in texts.items():
            with open(f"{folder}/{name}", "w", encoding="utf-8") as stream:
                stream.write(text)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._place.cleanup()

    def git(self, *words: str, stdin: bytes = b"") -> bytes:
        """Run git; return what it printed. Raises GitError."""
        folder = self._place.name
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        env = {**kept, "HOME": folder, "XDG_CONFIG_HOME": folder, "LC_ALL": "C", "GIT_DIR": folder,
               "GIT_WORK_TREE": self.worktree, "GIT_OBJECT_DIRECTORY": self._objects, "GIT_CONFIG_NOSYSTEM": "1",
               "GIT_CONFIG_GLOBAL": os.devnull, "GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1",
               "GIT_TERMINAL_PROMPT": "0"}  # fmt: skip
        ran: Ran = run(["git", *words], cwd=self.worktree, env=env, limit=_SECONDS, stdin=stdin)
        if not ran.ok:
            raise GitError(last_line(ran.stderr) or f"git {words[0]} {'had no end' if ran.timed_out else 'failed'}")
        return ran.stdout

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the contents of objects, each one hashed. Raises GitError for one that is missing or forged."""
        output = self.git("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode())
        found, at = {}, 0
        for name in names:
            end = output.find(b"\n", at)
            words = output[at:end].split()
            if end < 0 or len(words) != 3 or words[0] != name.encode():
                raise GitError(f"object {name} cannot be read")
            content = output[end + 1 : end + 1 + int(words[2])]
            if self.name_of(words[1].decode(), content) != name:
                raise GitError(f"object {name} is not what its name says")
            found[name] = content
            at = end + 2 + len(content)
        return found

    def name_of(self, kind: str, content: bytes) -> str:
        """Return the name that git gives to an object of this kind (commit, tree, blob)."""
        return hashlib.new(self.algorithm, b"%s %d\0%s" % (kind.encode(), len(content), content)).hexdigest()

    def files(self) -> dict[str, Entry]:
        """Return the files of the commit by path, submodules among them. Raises GitError."""
        listing = self.git("ls-tree", "-r", "-t", "-z", "--full-tree", self.commit).split(b"\0")
        named = [words[2].decode() for line in listing if len(words := line.partition(b"\t")[0].split()) == 3
                 and words[1] == b"tree"]  # fmt: skip
        commit = self.read([self.commit])[self.commit]
        top = commit.partition(b"\n")[0].partition(b" ")[2].decode("ascii", "replace")
        trees = self.read(list(dict.fromkeys([top, *named])))
        files: dict[str, Entry] = {}
        waiting = [("", top)]
        while waiting:
            folder, name = waiting.pop()
            if name not in trees:
                raise GitError(f"tree {name} is not listed")
            for inner, entry in self._entries(trees[name]):
                if entry.mode == _FOLDER:
                    waiting.append((f"{folder}{inner}/", entry.name))
                else:
                    files[folder + inner] = entry
        return files

    def _entries(self, content: bytes) -> Iterator[tuple[str, Entry]]:
        size, at = len(self.commit) // 2, 0
        while at < len(content):
            end = content.find(b"\0", at)
            mode, _, name = content[at:end].partition(b" ")
            inner = os.fsdecode(name)
            if end < 0 or not mode or inner in ("", ".", "..", ".git") or "/" in inner:
                raise GitError("a tree of the commit is not well-formed")
            yield inner, Entry(int(mode, 8), content[end + 1 : end + 1 + size].hex())
            at = end + 1 + size


@dataclass(frozen=True)
class Source:
    """What a source may have beside what its commit says: `package` is its package's folder in the checkout."""

    package: str = ""
    compiles: bool = False


def differences(tree: Tree, path: str, source: Source, prefix: str = "") -> tuple[list[str], list[Facts]]:
    """Return how a checkout differs from the commit that it is at, and its submodules with their commits.

    A difference is a line as of `git status`: ` M` a changed file, ` D` a missing one, `??` one too many. Those of
    submodules are among them. Raises GitError.
    """
    found = repository(tree, path)
    if found is None:
        raise GitError("it holds no .git")
    with Objects(tree.at(f"{found.common}/objects"), tree.at(path), head(tree, found)) as objects:
        files = objects.files()
        changed = [f" {sign} {prefix}{inner}" for inner, sign in sorted(_changed(objects, files).items())]
        changed += [f"?? {prefix}{inner}" for inner in _too_many(objects, files, source)]
    submodules: list[Facts] = []
    for inner, entry in sorted(files.items()):
        if entry.mode == _SUBMODULE:
            there, below = _submodule(tree, f"{path}/{inner}", f"{prefix}{inner}")
            submodules.append({"path": f"{prefix}{inner}", "recorded": entry.name, "head": there})
            changed += below
    return changed, submodules


def _submodule(tree: Tree, path: str, shown: str) -> tuple[str, list[str]]:
    """Return the commit of a submodule, empty where it is not there, and how it differs from it."""
    found = repository(tree, path)
    if found is None:
        filled = any(names for _, _, names in os.walk(tree.at(path)))
        return "", [f"?? {shown}/"] if filled else []
    return head(tree, found), differences(tree, path, Source(compiles=True), f"{shown}/")[0]


def _changed(objects: Objects, files: Mapping[str, Entry]) -> dict[str, str]:
    """Return the files of the commit that are missing (D) or others (M)."""
    folders = {posixpath.dirname(path) for path in files} - {""}
    folders |= {"/".join(folder.split("/")[:depth]) for folder in folders for depth in range(1, folder.count("/") + 1)}
    linked = tuple(f"{folder}/" for folder in folders if os.path.islink(f"{objects.worktree}/{folder}"))

    def state(path: str) -> str:
        entry = files[path]
        if path.startswith(linked):
            return "D"
        try:
            return "" if _same(objects, path, entry) else "M"
        except FileNotFoundError:
            return "D"
        except (OSError, ValueError):
            return "M"

    compared = [path for path, entry in files.items() if entry.mode != _SUBMODULE]
    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        states = dict(zip(compared, pool.map(state, compared, chunksize=64)))
    others = [path for path, sign in states.items() if sign == "M"]
    converted = _converted(objects, files, others) if others else set()
    return {path: sign for path, sign in states.items() if sign and path not in converted}


def _same(objects: Objects, path: str, entry: Entry) -> bool:
    """Tell whether a file is as the commit says: its kind, whether it may be executed, its content. Raises OSError."""
    place = f"{objects.worktree}/{path}"
    seen = os.lstat(place)
    if entry.mode == _LINK:
        return stat.S_ISLNK(seen.st_mode) and objects.name_of("blob", os.fsencode(os.readlink(place))) == entry.name
    if not stat.S_ISREG(seen.st_mode) or bool(seen.st_mode & 0o100) != bool(entry.mode & 0o100):
        return False
    return objects.name_of("blob", read_regular(place, _LARGEST)) == entry.name


def _converted(objects: Objects, files: Mapping[str, Entry], paths: Sequence[str]) -> set[str]:
    """Return the files that are others because .gitattributes says so: line ends, and what Git LFS has fetched."""
    output = objects.git(
        "check-attr", "-z", "--stdin", "text", "eol", "filter", stdin=b"\0".join(map(os.fsencode, paths)) + b"\0"
    )
    words = os.fsdecode(output).split("\0")
    said = {(words[at], words[at + 1]): words[at + 2] for at in range(0, len(words) - 2, 3)}
    found = set()
    for path in paths:
        place, name = f"{objects.worktree}/{path}", files[path].name
        if os.path.islink(place) or not os.path.isfile(place):
            continue
        content = read_regular(place, _LARGEST)
        ends = said.get((path, "text")) in ("set", "auto") or said.get((path, "eol")) in ("lf", "crlf")
        if ends and objects.name_of("blob", content.replace(b"\r\n", b"\n")) == name:
            found.add(path)
        elif said.get((path, "filter")) == "lfs":
            pointer = objects.read([name])[name]
            if b"oid sha256:" + hashlib.sha256(content).hexdigest().encode() in pointer.splitlines():
                found.add(path)
    return found


def _too_many(objects: Objects, files: Mapping[str, Entry], source: Source) -> list[str]:
    """Return the files that the commit does not have and no installation makes.

    Of what the commit's own .gitignore names only what Python would import counts.
    """
    objects.git("read-tree", objects.commit)
    everything = _listed(objects, "--others")
    if not everything:
        return []
    ignoring = "--exclude-per-directory=.gitignore"
    shown = set(_listed(objects, "--others", ignoring))
    folders = [path for path in _listed(objects, "--others", "--ignored", "--directory", ignoring)
               if path.endswith("/")] if source.compiles else []  # fmt: skip
    # A build's own folders; one beside a module of its name would be imported in its place.
    built = tuple(path for path in folders if f"{path.rstrip('/')}.py" not in files)
    return [
        path
        for path in everything
        if not build_output(path, source, files)
        and (path in shown or (_importable(path) and not path.startswith(built)))
    ]


def _listed(objects: Objects, *words: str) -> list[str]:
    return [path for path in os.fsdecode(objects.git("ls-files", "-z", *words)).split("\0") if path]


def _importable(path: str) -> bool:
    return path.endswith((".py", ".pyc", ".so", ".pth", "/"))


def build_output(path: str, source: Source, files: Mapping[str, Entry]) -> bool:
    """Tell whether a file that the commit does not have is one that an installation makes where this one lies."""
    parts = path.split("/")
    folder, name = "/".join(parts[:-1]), parts[-1]
    if parts[0] == "build" or any(part.endswith(".egg-info") for part in parts[:2]):
        return True
    if name.endswith(".pyc"):
        return "__pycache__" in parts
    if name in ("_version.py", "_build_info.py"):
        return folder == source.package
    if not name.endswith(".so") or not (source.compiles or _sources_beside(folder, files)):
        return False
    # An extension is imported before a module of its name.
    module = posixpath.join(folder, name.partition(".")[0])
    return f"{module}.py" not in files and f"{module}/__init__.py" not in files


def _sources_beside(folder: str, files: Mapping[str, Entry]) -> bool:
    """Tell whether the commit has what an extension is compiled from in its folder, as Megatron-LM's helpers.cpp."""
    return any(
        posixpath.dirname(path) == folder and path.endswith((".c", ".cc", ".cpp", ".cxx", ".pyx")) for path in files
    )
