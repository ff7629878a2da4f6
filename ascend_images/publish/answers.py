"""What the answers of registries say, as far as anybody here reads them: words of others, whatever they are."""

import email.utils

import msgspec

from ascend_images.errors import LookupIncomplete, said
from ascend_images.json_text import NotJsonError, read_json
from ascend_images.pins.tags import is_tag
from ascend_images.publish.transport import Reply


class _TagList(msgspec.Struct):
    # Some registries say null of a repository whose last tag is gone.
    tags: tuple[str, ...] | None


class _Problem(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Problems(msgspec.Struct):
    errors: tuple[_Problem, ...]


def tags_in(reply: Reply, name: str) -> tuple[str, ...]:
    """Return the tags in one page of a list; raises LookupIncomplete, with the repository's name, for anything else."""
    try:
        found = read_json(reply.body, _TagList).tags or ()
    except NotJsonError:
        found = ("",)
    if not all(map(is_tag, found)):
        raise LookupIncomplete(
            f"{name}: an answer that is no list of tags", wanted="a registry of the OCI specification"
        )
    return found


def retry_after(reply: Reply, now: float) -> float:
    """Return how many seconds an answer asks to wait, 0 where it does not say; `now` is a time in seconds."""
    text = reply.headers.get("retry-after", "").strip()
    if text.isdecimal() and len(text) < len("1000000"):
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def refusal(reply: Reply) -> str:
    """Return what a registry says of a refusal, in brackets and in one line; empty where it says nothing."""
    try:
        errors = read_json(reply.body, _Problems).errors
    except NotJsonError:
        return ""
    text = said("; ".join(filter(None, (one.message or one.code for one in errors))))
    return f" ({text})" if text else ""
