"""Facts: what shell start-up files and the ENTRYPOINT name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..tree import Tree
from ..words import Facts, releases_named

_STARTUP = tuple(
    """
    /etc/profile /etc/profile.d/*.sh /etc/bash.bashrc /etc/bashrc /etc/environment /root/.profile
    /root/.bash_profile /root/.bash_login /root/.bashrc
    """.split()
)
#: Bytes of a start-up file; the base images' have some thousand.
_STARTUP_LIMIT = 1 << 18
_SOURCED = re.compile(r"(?:^|[;&|({\s])(?:source|\.)\s+[\"']?(/[^\s;&|\"')}]+)")


def startup_facts(tree: Tree, image: Mapping[str, Any]) -> list[Facts]:
    """Return what shell start-up files and the ENTRYPOINT name: CANN releases, and the scripts they source."""
    texts = {"ENTRYPOINT": "\n".join(image.get("entrypoint", []))} if image.get("entrypoint") else {}
    for pattern in _STARTUP:
        for path in tree.glob(pattern):
            texts[path] = tree.text(path, _STARTUP_LIMIT) or ""
    return [{"file": name, **startup_text(text)} for name, text in texts.items()]


def startup_text(text: str) -> Facts:
    """Read the text of a start-up file, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    code = "\n".join(lines)
    scripts = []
    for path in dict.fromkeys(_SOURCED.findall(code)):
        # A script that is sourced only where it exists may be missing.
        guarded = re.search(rf"-[efrs]\s+[\"']?{re.escape(path)}[\"'\s\]]", code) is not None
        if "$" not in path and "*" not in path:
            scripts.append({"path": path, "guarded": guarded})
    return {"releases": releases_named(code), "scripts": scripts}
