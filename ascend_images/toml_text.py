"""TOML, read so that whatever is wrong with a text is one kind of error."""

import tomllib
from collections.abc import Sequence
from itertools import takewhile
from typing import Any


class NotTomlError(ValueError):
    """A text is not TOML, or holds what is not read here; the message says what and, where known, the line."""


def read_toml(text: str) -> dict[str, Any]:
    """Return the document in a TOML text; raises NotTomlError.

    Python's reader raises RecursionError for brackets nested too deeply, and a bare ValueError for a number of more
    digits than Python converts.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise NotTomlError("brackets are nested too deeply") from None
    except ValueError as error:
        raise NotTomlError(str(error).partition(";")[0]) from None


def common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many parts two dotted keys have in common from the first on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
