"""Asking git hosts, registries and file servers: no answer, the answer that nothing is there, and what comes of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ascend_images.errors import BadInput
from ascend_images.pins.addresses import masked
from ascend_images.pins.versions_lock import Entry

Locked_co = TypeVar("Locked_co", bound=Entry, covariant=True)


class UnreachableError(Exception):
    """A remote gave no answer, or none that can be told from a fault of the way to it; its text is the reason."""


class NotThereError(Exception):
    """A remote answered that it does not have what was asked for; its text is what it said."""


class MovedError(BadInput):
    """What cannot change (a tag, a published file) means something else than what was locked."""


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[Locked_co]):
    """What came of asking for one thing.

    `entry` is what the lock is to hold, the old entry where nothing new was learned; `unreached` says why something
    could not be asked, `problem` what is wrong with the answer, `notes` what a person may want to know.
    """

    entry: Locked_co | None = None
    unreached: str = ""
    problem: BadInput | None = None
    notes: tuple[str, ...] = ()


# What programs print, in lower case, and what it means. The order counts: a failed login is told before the rest.
_WORDS = (
    ("certificate", "its certificate is not trusted here"),
    ("could not read username", "it has no such repository, or one that asks for a login"),
    ("authentication failed", "it asks for a login that this machine does not have"),
    ("unauthorized", "it has no such image, or one that asks for a login"),
    ("authentication required", "it has no such image, or one that asks for a login"),
    ("authorization failed", "it has no such image, or one that asks for a login"),
    ("access denied", "it has no such image, or one that asks for a login"),
    ("403 forbidden", "it has no such image, or one that asks for a login"),
    ("insufficient_scope", "it has no such image, or one that asks for a login"),
    ("toomanyrequests", "it takes no more requests from here for now"),
    ("error: 429", "it takes no more requests from here for now"),
    ("could not resolve host", "its host name is not known here"),
    ("no such host", "its host name is not known here"),
    ("nameresolutionerror", "its host name is not known here"),
    ("getaddrinfo", "its host name is not known here"),
    ("could not resolve proxy", "the proxy's host name is not known here"),
    ("from proxy", "the proxy gives no way to it"),
    ("proxyerror", "the proxy gives no way to it"),
    ("connection refused", "the connection is refused"),
    ("couldn't connect", "the connection is refused"),
    ("timed out", "no answer in time"),
    ("timeout", "no answer in time"),
    ("too slow", "no answer in time"),
)


def plain_reason(said: str) -> str:
    """Return why a program or a library could not reach something: in plain words, or its own first complaint."""
    lower = said.lower()
    for known, words in _WORDS:
        if known in lower:
            return words
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    complaints = [line for line in lines if line.lower().startswith(("fatal:", "error:"))]
    return masked(" ".join((complaints or lines or ["no answer"])[0].split()))[:300]


def listed(texts: Sequence[str]) -> str:
    """Return texts as a list for people: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))
