"""Changes installed files in exactly the places that are meant, and their entries in RECORD with them.

Arguments: the folder of site-packages, and a JSON file: a list of {distribution, file, find, replace, count, reason}.
"""

import base64
import hashlib
import json
import pathlib
import re
import sys


def patch(site: pathlib.Path, change: dict) -> None:
    """Apply one change; ends the program where the file has not just the places that are meant."""
    file = site / change["file"]
    if not file.is_file():
        sys.exit(
            f"build stopped: {change['distribution']} has no file {change['file']}\n"
            f"  wanted: the file to change: {change['reason']}"
        )
    before = file.read_text(encoding="utf-8")
    found = before.count(change["find"])
    if found != change["count"]:
        sys.exit(
            f"build stopped: {change['file']} of {change['distribution']} holds {change['find']!r} {found} times\n"
            f"  wanted: {change['count']} times: {change['reason']}\n"
            "  next:   see whether this version still needs the patch in versions.toml"
        )
    after = before.replace(change["find"], change["replace"]).encode()
    file.write_bytes(after)
    record = next(site.glob(f"{glob_name(change['distribution'])}-*.dist-info")) / "RECORD"
    digest = base64.urlsafe_b64encode(hashlib.sha256(after).digest()).rstrip(b"=").decode()
    lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
    entry = f"{change['file']},"
    new = f"{entry}sha256={digest},{len(after)}\n"
    record.write_text("".join(new if line.startswith(entry) else line for line in lines), encoding="utf-8")
    print(f"{change['file']}: {change['count']} places changed: {change['reason']}")


def glob_name(distribution: str) -> str:
    """Return a pattern for a distribution's name in the name of its dist-info, in any case."""
    letters = re.sub(r"[-_.]+", "_", distribution)
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else "[-_.]" if c == "_" else c for c in letters)


if __name__ == "__main__":
    for one in json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")):
        patch(pathlib.Path(sys.argv[1]), one)
