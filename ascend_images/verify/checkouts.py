"""Git checkouts in an image, read from the files of their `.git`: neither git nor any other program of it runs."""

import configparser
import contextlib
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import docker
from docker.errors import APIError, NotFound
from docker.models.containers import Container

from ascend_images.host.containers import file_in
from ascend_images.verify.container import LABEL

#: Gives the content of a file of the image, None where there is none; links are followed.
Read = Callable[[str], bytes | None]

_COMMIT = re.compile(r"[0-9a-f]{40}")
# Bytes: more than any file has that is read here, a packed-refs of thousands of tags among them.
_MOST_BYTES = 16 << 20
_MOST_LINKS = 10


@dataclass(frozen=True, kw_only=True)
class FoundCheckout:
    """A checkout at `path`; `commit`, `remote` (of origin) and `tag` (one that stands for the commit) may be empty."""

    path: str
    commit: str = ""
    remote: str = ""
    tag: str = ""


def checkout_around(path: str, read: Read) -> FoundCheckout | None:
    """Return the innermost checkout that a path lies in, None where it lies in none."""
    place = posixpath.normpath(path)
    while place not in ("/", "", "."):
        folder = _git_folder(place, read)
        if folder:
            return _read(place, folder, read)
        place = posixpath.dirname(place)
    return None


@contextlib.contextmanager
def files_of(client: docker.DockerClient, image: str) -> Iterator[Read]:
    """Yield a reader of an image's files: a container of it is made, never started, and removed."""
    container = client.containers.create(image, ["true"], labels={LABEL: "freeze"}, network_mode="none")
    try:
        yield lambda path: _content(container, path)
    finally:
        with contextlib.suppress(NotFound):
            container.remove(force=True, v=True)


def _content(container: Container, path: str) -> bytes | None:
    try:
        return file_in(container, path, most=_MOST_BYTES, links=_MOST_LINKS)
    except APIError:  # NotFound is one
        return None


def _git_folder(place: str, read: Read) -> str:
    """Return where a checkout's git data lies: `.git`, or where the file of that name says (worktrees, submodules)."""
    if read(f"{place}/.git/HEAD") is not None:
        return f"{place}/.git"
    said = (read(f"{place}/.git") or b"").decode(errors="replace").strip()
    if said.startswith("gitdir:"):
        folder = posixpath.normpath(posixpath.join(place, said.removeprefix("gitdir:").strip()))
        return folder if read(f"{folder}/HEAD") is not None else ""
    return ""


def _read(place: str, folder: str, read: Read) -> FoundCheckout:
    def text(name: str) -> str:
        return (read(f"{folder}/{name}") or b"").decode(errors="replace")

    packed = dict(_packed(text("packed-refs")))
    head = text("HEAD").strip()
    if head.startswith("ref:"):
        name = head.removeprefix("ref:").strip()
        head = text(name).strip() or packed.get(name, "")
    commit = head if _COMMIT.fullmatch(head) else ""
    tags = [name.removeprefix("refs/tags/") for name, known in packed.items() if known == commit and commit]
    fetched = re.search(rf"^{commit}\t[^\n]*\btag '([^'\n]+)'", text("FETCH_HEAD"), re.MULTILINE) if commit else None
    names = [name for name in tags if name != "refs" and not name.startswith("refs/")] + (
        [fetched[1]] if fetched else []
    )
    return FoundCheckout(path=place, commit=commit, remote=_origin(text("config")), tag=max(names) if names else "")


def _packed(text: str) -> Iterator[tuple[str, str]]:
    """Yield each ref of a packed-refs file and the commit it stands for; that of an annotated tag stands below it."""
    name = ""
    for line in text.splitlines():
        words = line.split()
        if line.startswith("^"):
            yield name, line[1:].strip()
        elif len(words) == 2 and not line.startswith("#"):
            name = words[1]
            yield name, words[0]


def _origin(text: str) -> str:
    """Return the address of the remote called origin in a git configuration."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, delimiters=("=",))
    try:
        parser.read_string("\n".join(line.strip() for line in text.splitlines()))
        return str(parser.get('remote "origin"', "url", fallback="") or "")
    except configparser.Error:
        return ""
