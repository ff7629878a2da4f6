"""lock.txt: the locked packages of an image, and the demands that they leave unmet on purpose."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from .words import Facts, canonical


@dataclass(frozen=True)
class Lock:
    """What lock.txt says: packages by normal name, and the demands that they leave unmet on purpose."""

    platform: str = ""
    packages: dict[str, str] = field(default_factory=dict)
    conflicts: list[Facts] = field(default_factory=list)


def parse_lock(text: str) -> Lock:
    """Read lock.txt: `name==version` lines, `# platform:` and `# conflict:`. Raises ValueError."""
    packages, conflicts, platforms = {}, [], []
    for line in text.splitlines():
        package = re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s\\;]+)", line)
        if package:
            packages[canonical(package.group(1))] = package.group(2)
        elif line.startswith("# conflict:"):
            conflict = _conflict(line.partition(":")[2])
            if not {"whose", "demand"} <= set(conflict):
                raise ValueError(f"not a conflict: {line[:200]}")
            conflicts.append(conflict)
        elif line.startswith("# platform:"):
            platforms.append(line.partition(":")[2].strip())
    if not packages:
        raise ValueError("it holds no locked package")
    return Lock(platforms[0] if platforms else "", packages, conflicts)


def _conflict(text: str) -> dict[str, str]:
    """Read the object of a `# conflict:`, whose values are texts; an empty one for anything else."""
    try:
        conflict = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(conflict, dict) or not all(isinstance(value, str) for value in conflict.values()):
        return {}
    return conflict
