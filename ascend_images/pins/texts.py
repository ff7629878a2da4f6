"""What texts of pins may hold: anything but characters that would be read as something else where they are put.

Pins end up in Dockerfiles, shell commands, requirements files and on terminals, which a line break or an escape
sequence would turn into other ones.
"""

import unicodedata
from collections.abc import Iterator
from typing import Any

from ascend_images.pins.validate import Fault

# Line and paragraph separators, and the embeddings and overrides that show text in another order than it is read in
# (CVE-2021-42574).
_DISGUISED = frozenset("\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# What is searched and put into files is text of those files, which may have several lines.
_SEVERAL_LINES = ("find", "replace")


def control_character(text: str, allowed: str = "") -> str:
    """Return the first character of a text that may not stand there, as `U+000A`, or nothing."""
    for character in text:
        bad = unicodedata.category(character) in ("Cc", "Cs") or character in _DISGUISED
        if bad and character not in allowed:
            return f"U+{ord(character):04X}"
    return ""


def text_faults(raw: Any, path: tuple[str | int, ...] = ()) -> Iterator[Fault]:
    """Yield a fault for each key and text in raw data that holds a control character."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [(path, raw)]
    while waiting:
        here, value = waiting.pop()
        if isinstance(value, dict):
            for key, item in value.items():
                found = control_character(key)
                if found:
                    yield Fault((*here, key.encode("unicode_escape").decode()), f"the key holds {found}")
                else:
                    waiting.append(((*here, key), item))
        elif isinstance(value, list | tuple):
            waiting.extend(((*here, number), item) for number, item in enumerate(value))
        elif isinstance(value, str):
            several = len(here) > 1 and here[-1] in _SEVERAL_LINES and "patches" in here
            found = control_character(value, "\n\t" if several else "")
            if found:
                yield Fault(here, f"holds the control character {found}, which cannot stand there")
