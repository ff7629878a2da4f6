"""JSON, read so that whatever is wrong with a text, or with a file that should hold one, is one kind of error."""

from pathlib import Path
from typing import TypeVar

import msgspec

from ascend_images.errors import BadInput
from ascend_images.files import read_regular

_Kind = TypeVar("_Kind")


class NotJsonError(ValueError):
    """A text is not JSON, or another document than was asked for; the message says what and, where known, where."""


def read_json(text: bytes | str, kind: type[_Kind]) -> _Kind:
    """Return the document of a kind in a JSON text; raises NotJsonError.

    msgspec's reader raises RecursionError for brackets nested too deeply, and UnicodeDecodeError for bytes that are no
    text.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        raise NotJsonError("brackets are nested too deeply") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise NotJsonError(str(error)) from None


def read_json_file(path: Path, kind: type[_Kind], *, what: str, wanted: str = "", do: str = "") -> _Kind:
    """Return the document of a kind in a JSON file; raises BadInput, with `what` it should have been, for any other.

    Raises FileNotFoundError where nothing is there: it is for the caller to say what that means.
    """
    try:
        return read_json(read_regular(path), kind)
    except FileNotFoundError:
        raise
    except (OSError, NotJsonError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"{path}: not {what}: {why or error}", wanted=wanted, do=do) from None
