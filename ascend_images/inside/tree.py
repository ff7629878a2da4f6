"""The file system of an image: `/`, or one that was unpacked elsewhere."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import stat

#: Bytes of a file above which it is none of those that are read whole here: a RECORD of torch has some 2 MB.
LARGEST = 64 << 20


def open_regular(path: str) -> int:
    """Return a descriptor of a regular file, to be closed; raises OSError for anything else, a pipe or a device too."""
    # Without O_NONBLOCK, opening a pipe waits for somebody who writes.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    return descriptor


def read_regular(path: str, limit: int = LARGEST) -> bytes:
    """Return what is in a regular file of at most `limit` bytes; raises OSError for any other, a pipe or a device too.

    Files under /proc say that they are empty, so that what is read counts and not what the file says of itself.
    """
    with open(open_regular(path), "rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise OSError(f"{path} is larger than {limit} bytes")
    return data


class Tree:
    """The image's file system: `/`, or an unpacked image elsewhere, whose links are followed inside it."""

    def __init__(self, root: str = "/") -> None:
        self.root = os.path.abspath(root)
        self.live = self.root == "/"

    def resolve(self, path: str) -> str:
        """Follow every link of an absolute path; what does not exist stays as it is written."""
        parts, done, links = path.split("/")[::-1], "", 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                done = posixpath.dirname(done).rstrip("/")
                continue
            here = f"{done}/{part}"
            outside = self.outside(here)
            if links < 40 and os.path.islink(outside):
                links += 1
                target = os.readlink(outside)
                done = "" if target.startswith("/") else done
                parts.extend(target.split("/")[::-1])
            else:
                done = here
        return done or "/"

    def outside(self, path: str) -> str:
        """Return where a path of the image lies for this process; links in it are not followed."""
        return path if self.live else self.root + path

    def at(self, path: str) -> str:
        """Return where a path of the image lies for this process, links followed."""
        return path if self.live else self.outside(self.resolve(path))

    def exists(self, path: str) -> bool:
        """Tell whether a path leads to something."""
        return os.path.exists(self.at(path))

    def is_dir(self, path: str) -> bool:
        """Tell whether a path leads to a directory."""
        return os.path.isdir(self.at(path))

    def names(self, path: str) -> list[str]:
        """Return what lies in a directory, sorted; nothing where it is not one."""
        try:
            return sorted(os.listdir(self.at(path)))
        except OSError:
            return []

    def is_file(self, path: str) -> bool:
        """Tell whether a path leads to a regular file."""
        return os.path.isfile(self.at(path))

    def text(self, path: str, limit: int = LARGEST) -> str | None:
        """Return the text of a regular file of at most `limit` bytes, with LF at line ends; None for anything else."""
        try:
            data = read_regular(self.at(path), limit)
        except (OSError, ValueError):
            return None
        return data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern; `*` stands for a part of one name."""
        found = [""]
        for part in pattern.strip("/").split("/"):
            if any(sign in part for sign in "*?["):
                found = [
                    f"{base}/{name}"
                    for base in found
                    for name in self.names(base or "/")
                    if fnmatch.fnmatch(name, part)
                ]
            else:
                found = [
                    f"{base}/{part}"
                    for base in found
                    if os.path.lexists(self.outside(self.resolve(base or "/") + "/" + part))
                ]
        return found
