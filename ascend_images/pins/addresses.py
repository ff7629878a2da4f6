"""Addresses in pins and on command lines: taken apart without surprises, and shown without passwords."""

import re
from urllib.parse import SplitResult, urlsplit

_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE)
# Behind a colon a slash is one of a password that nobody wrote as %2F, unless it follows a port.
_USER = re.compile(r"//(?:[^/\s]*|[^/\s:@]*:(?!\d*/)[^\s@]*)@")
# What an address may consist of (RFC 3986), less the quotes, which a file around it may end a text with.
_ADDRESS = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&()*+,;=%-]+")


def parts_of(url: str) -> SplitResult | None:
    """Return the parts of an address, or None for a text that is none (`https://[::1`, `http://x:port/`)."""
    try:
        parts = urlsplit(url)
        # Only reading the port shows whether it is one; 0 is none.
        return None if parts.port == 0 else parts
    except ValueError:
        return None


def is_https(url: str) -> bool:
    """Tell whether a text is an https address, written in such a way that it is one in every file and shell too."""
    parts = parts_of(url)
    return bool(parts and parts.scheme == "https" and parts.hostname and _ADDRESS.fullmatch(url))


def masked(text: str) -> str:
    """Return a text with `***` for the user and password of each address in it."""
    return _USER.sub("//***@", text)


def holds_login(url: str) -> bool:
    """Tell whether an address holds a password, or a user where that may be a secret too: ssh alone needs a name."""
    parts = parts_of(url)
    if parts is None:
        return masked(url) != url
    return "@" in parts.netloc and (parts.scheme != "ssh" or parts.password is not None)


def holds_password(text: str) -> bool:
    """Tell whether an address with a password stands in a text; a user's name alone is none."""
    return bool(_PASSWORD.search(text))
