"""How a benchmark tells what it measured: a row a figure, with its target and whether it was met."""

from collections.abc import Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """One figure: what it is, its value, the target in words, whether it was met."""

    name: str
    value: str
    target: str = ""
    met: bool = True


def tell(rows: Sequence[Row]) -> int:
    """Print the rows; return 1 where a target is missed."""
    for row in rows:
        print(f"{row.name:48} {row.value:26} {row.target:14} {'' if row.met else 'MISSED'}".rstrip())
    return 0 if all(row.met for row in rows) else 1
