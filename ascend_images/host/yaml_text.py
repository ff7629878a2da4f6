"""YAML of plain data, as Compose and Kubernetes read it: blocks, and texts in double quotes."""

import json
import re
from collections.abc import Mapping, Sequence

Value = str | int | bool | Mapping[str, "Value"] | Sequence["Value"]

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
# What YAML 1.1 takes for a boolean or for nothing, in small letters.
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
# JSON leaves these as they are; YAML has some for line breaks and some for not printable.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")


def yaml_text(value: Mapping[str, Value]) -> str:
    """Return a document."""
    return "\n".join(_block(value)) + "\n"


def _block(value: Value) -> list[str]:
    """Return the lines of a mapping or a list, without indentation of its own."""
    lines: list[str] = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            lines += _entry(f"{_key(key)}:", item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            inner = [_scalar(item)] if _is_scalar(item) else _block(item)
            lines += [f"- {inner[0]}", *(f"  {line}" for line in inner[1:])]
    return lines


def _entry(key: str, item: Value) -> list[str]:
    if _is_scalar(item):
        return [f"{key} {_scalar(item)}"]
    return [key, *(f"  {line}" for line in _block(item))]


def _is_scalar(value: Value) -> bool:
    return isinstance(value, str | int) or not value


def _scalar(value: Value) -> str:
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return json.dumps(value if isinstance(value, int) else {} if isinstance(value, Mapping) else [])


def _key(key: str) -> str:
    return key if _PLAIN.fullmatch(key) and key.lower() not in _WORDS else _scalar(key)
