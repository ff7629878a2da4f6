"""By way of which mirror remotes are asked, and how messages say so."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ascend_images.images.network import mirrored_image
from ascend_images.pins.addresses import masked
from ascend_images.pins.model import Index, Mirror


@dataclass(frozen=True)
class Way:
    """The mirror that was chosen and its name in versions.toml; both empty where none was."""

    name: str = ""
    mirror: Mirror = field(default_factory=Mirror)

    @property
    def label(self) -> str:
        """What messages call the mirror, empty where none was chosen."""
        if self.name:
            return f"mirror {self.name}"
        return "" if self.mirror == Mirror() else "a mirror"

    @property
    def advice(self) -> str:
        """What else may help where something gave no answer: a mirror, unless one was chosen already."""
        return "" if self.label else ", or by way of a mirror: --mirror NAME"

    def told(self, place: str) -> str:
        """Return a repository or an image with the address that is asked in its stead, where there is one."""
        return f"{place}{self.instead(place)}"

    def instead(self, place: str) -> str:
        """Return, in parentheses, the address that is asked in the stead of a place, empty where there is none."""
        address = self._of_git(place) or mirrored_image(place, self.mirror.registry)
        return f" (asked by way of {self.label}: {masked(address)})" if address else ""

    def indexes(self, indexes: Mapping[str, Index]) -> dict[str, str]:
        """Return the addresses at which indexes are asked, by name; `default` is among them where it is mirrored."""
        return {name: index.url for name, index in indexes.items()} | self.mirror.index

    def _of_git(self, place: str) -> str:
        # As git does it: of several beginnings the longest counts.
        for prefix in sorted(self.mirror.git, key=len, reverse=True):
            if place.startswith(prefix):
                return self.mirror.git[prefix] + place.removeprefix(prefix)
        return ""


#: No mirror was chosen.
DIRECTLY = Way()


def default_place(addresses: Mapping[str, str]) -> str:
    """Return what messages call the default index: with its address where that is another than usual."""
    return f"the default index ({masked(addresses['default'])})" if "default" in addresses else "the default index"
