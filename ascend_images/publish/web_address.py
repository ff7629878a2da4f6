"""Where this project is on the web, for links that lead to files of its commits."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ascend_images.errors import BadInput
from ascend_images.project_git import git

_HOST = r"[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?"
#: The path of a file or a project, as a pattern.
# No name is `.` or `..`, which would lead elsewhere, and no sign ends a link in Markdown.
PATH = r"(?:(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~-]+/)*(?!\.{1,2}\Z)[A-Za-z0-9._~-]+"

#: An address that links may begin with, as a pattern.
ADDRESS = rf"https?://{_HOST}/{PATH}"

_HTTPS = re.compile(rf"https://(?:[^@/]*@)?(?P<host>{_HOST})/(?P<path>.+?)(?:\.git)?/?")
_SSH = re.compile(rf"(?:ssh://)?git@(?P<host>{_HOST})[:/](?P<path>.+?)(?:\.git)?/?")


def web_address(root: Path, environment: Mapping[str, str]) -> str:
    """Return this project's address on the web: of the CI that runs, else of its git remote; empty where unknown.

    Raises BadInput where CI names something else than an address.
    """
    server, name = environment.get("GITHUB_SERVER_URL", ""), environment.get("GITHUB_REPOSITORY", "")
    if server and name:
        address = f"{server.rstrip('/')}/{name}"
        if not re.fullmatch(ADDRESS, address):
            raise BadInput(
                f"GITHUB_SERVER_URL and GITHUB_REPOSITORY: {address!r}", wanted="https://HOST and OWNER/NAME"
            )
        return address
    said = git(root, "remote", "get-url", "origin")
    text = said.stdout.strip() if said.returncode == 0 else ""
    found = _HTTPS.fullmatch(text) or _SSH.fullmatch(text)
    address = f"https://{found['host']}/{found['path']}" if found else ""
    return address if re.fullmatch(ADDRESS, address) else ""


def linked_address(root: Path, environment: Mapping[str, str], say: Callable[[str], None]) -> str:
    """Return the address for links to files of HEAD; empty, and said, where no branch of origin is known to hold it.

    What CI runs, it has from there.
    """
    address = web_address(root, environment)
    if not address or environment.get("GITHUB_REPOSITORY"):
        return address
    if git(root, "for-each-ref", "--count=1", "--contains=HEAD", "refs/remotes/origin").stdout:
        return address
    say(f"no branch of origin holds HEAD: the list of tags gets no link to {address} (git push first, for one)")
    return ""
