"""What the tables of this project's TOML files are made of."""

from typing import Annotated

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(min_length=1)]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A TOML table; an unknown key in it is an error."""
