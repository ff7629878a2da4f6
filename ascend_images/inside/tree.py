"""The file system of an image: `/`, or one that was unpacked elsewhere."""

from __future__ import annotations

import fnmatch
import os
import posixpath


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

    def text(self, path: str) -> str | None:
        """Return a file's text, None where it cannot be read."""
        try:
            with open(self.at(path), encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:
            return None

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
