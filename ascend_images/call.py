"""What was typed besides a variant, so that the command which a message names next is about the same selection."""

import functools
import inspect
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from ascend_images.errors import AscendImagesError

#: The options of each verb that say what it is about, in the order in which they are repeated.
REPEATED = {
    "check": ("set",),
    "show": ("set",),
    "render": ("set",),
    "lock": ("arch", "set", "source", "update", "as_of", "fresh", "mirror", "ca_bundle"),
    "build": (
        *("arch", "platform", "set", "source", "wheels", "base_image", "mirror", "ca_bundle"),
        *("builder", "jobs", "push", "cache_to", "cache_from", "compression", "sandbox", "unlocked"),
    ),
    "reproduce": (
        *("arch", "set", "base_image", "mirror", "ca_bundle", "builder", "one_engine", "sandbox", "unlocked"),
    ),
    "manifest": ("records",),
    "promote": ("reports", "without_npu", "sign"),
}

#: Those of a build that say where and how much of it is done, not what is made.
_OF_THE_PLACE = ("arch", "platform", "builder", "jobs", "push", "cache_to", "cache_from")

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_COMMAND = re.compile(
    rf"invoke (?P<verb>{'|'.join(REPEATED)})(?: --[a-z-]+)*? --variant {_NAME}"
    # The flags behind it, up to the next command or the end of the sentence.
    r"(?=(?P<more>(?:(?!invoke )[^;\n])*))"
)

_typed: ContextVar[Mapping[str, Any] | None] = ContextVar("typed", default=None)


def repeating(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command complete what its errors say is to be typed next; see `completed`.

    An option that has the value it has anyway is no word that was typed.
    """
    usual = {name: one.default for name, one in inspect.signature(function).parameters.items()}

    @functools.wraps(function)
    def body(context: Any, *arguments: Any, **options: Any) -> None:
        before = _typed.set({name: value for name, value in options.items() if value != usual.get(name)})
        try:
            function(context, *arguments, **options)
        except AscendImagesError as error:
            error.do = completed(error.do)
            raise
        finally:
            _typed.reset(before)

    return body


def completed(text: str) -> str:
    """Return `text` with each `invoke VERB --variant NAME` in it followed by what was typed and that verb takes.

    What stands there already is not repeated. Outside of a command (`repeating`) nothing was typed.
    """
    typed = _typed.get() or {}
    return _COMMAND.sub(lambda match: match[0] + "".join(_missing(match["verb"], match["more"], typed)), text)


def of_what_is_made() -> tuple[str, ...]:
    """Return what was typed that makes this build's image what it is: an option with its value each, for a shell."""
    typed = _typed.get() or {}
    names = (name for name in REPEATED["build"] if name not in _OF_THE_PLACE)
    return tuple(_words(name, value) for name in names for value in _as_list(typed.get(name)))


def _missing(verb: str, there: str, typed: Mapping[str, Any]) -> Iterator[str]:
    # The architectures that a message names are those that are meant, however others were typed.
    named = re.search(r" --(?:arch|platform) ", there)
    for name in REPEATED[verb]:
        if named and name in ("arch", "platform"):
            continue
        for value in _values(verb, name, typed):
            words = _words(name, value)
            if not re.search(rf" {re.escape(words)}(?![^\s,])", there):
                yield f" {words}"


def _words(name: str, value: Any) -> str:
    """Return an option and its value as a shell takes them; a flag has none."""
    flag = f"--{name.replace('_', '-')}"
    return flag if value is True else f"{flag} {shlex.quote(str(value))}"


def _values(verb: str, name: str, typed: Mapping[str, Any]) -> list[Any]:
    values = _as_list(typed.get(name))
    if name == "arch" and "platform" not in REPEATED[verb]:
        # `--platform linux/arm64/v8` is `--arch arm64` where there is no --platform.
        platforms = [word for text in _as_list(typed.get("platform")) for word in text.split(",")]
        words = [*values, *(word.removeprefix("linux/").partition("/")[0] for word in platforms)]
        values = [",".join(words)] if words else []
    return values


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value] if value else []
