"""Where a pin of a variant stands: in which table of versions.toml, as stacks extend one another, or on the way."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from packaging.utils import canonicalize_name

from ascend_images.pins.cann_version import ReleaseVersion
from ascend_images.pins.model import Pins
from ascend_images.pins.overrides import version_of_ref, with_v
from ascend_images.pins.validate import dotted
from ascend_images.pins.variant import Variant

Kind = Literal["packages", "sources", "exclude"]


class Places(Protocol):
    """Whom to ask where a pin stands."""

    def __call__(self, variant: Variant, kind: Kind, name: str) -> str:
        """Return the place of a package's pin, a source, or an exclusion, for people."""


def in_own_stack(variant: Variant, kind: Kind, name: str) -> str:  # noqa: ARG001
    """Return the table of the variant's own stack: what is said where the file itself is not at hand."""
    return _table(variant.stack, kind)


@dataclass(frozen=True)
class InFile:
    """Places in a file: `pins` is what it says, `raw` the document as it was read, its `extends` not carried out.

    `changed` is the place of what the file does not say: what the command line changed.
    """

    pins: Pins
    raw: Mapping[str, Any]
    changed: str = "--set"

    def __call__(self, variant: Variant, kind: Kind, name: str) -> str:
        """Return the place; see `Places`."""
        if kind == "packages":
            return self._package(variant, name)
        stack = self.pins.stack[variant.stack]
        same = name in stack.exclude if kind == "exclude" else self._is_same_source(variant, name)
        return self._nearest(variant.stack, kind, name) if same else self.changed

    def _package(self, variant: Variant, name: str) -> str:
        there = self.pins.stack[variant.stack].packages
        written = next((own for own in there if canonicalize_name(own) == canonicalize_name(name)), "")
        pinned = {canonicalize_name(own): version for own, version in variant.packages.items()}
        version = pinned.get(canonicalize_name(name), "")
        if written:
            return self._nearest(variant.stack, "packages", written) if there[written] == version else self.changed
        series = ReleaseVersion.parse(variant.cann).series
        known = self.pins.series.get(series)
        # What no stack pins comes with the CANN release.
        by_release = known is not None and known.triton_ascend == version
        return f"versions.toml {dotted(('series', series, 'triton_ascend'))}" if by_release else self.changed

    def _is_same_source(self, variant: Variant, name: str) -> bool:
        said = self.pins.stack[variant.stack].sources.get(name)
        one = next((source for source in variant.sources if source.name == name), None)
        if said is None or one is None:
            return False
        ref = with_v(name, said.ref)
        return (ref, said.version or version_of_ref(ref)) == (one.ref, one.version)

    def _nearest(self, stack: str, kind: Kind, name: str) -> str:
        """Return the table that decides: that of the nearest stack which says it itself."""
        at = stack
        while at:
            own = self.raw["stack"][at].get(kind, {})
            if name in own and (kind != "sources" or {"ref", "version"} & set(own[name])):
                return _table(at, kind)
            at = self.raw["stack"][at].get("extends", "")
        return _table(stack, kind)


def _table(stack: str, kind: Kind) -> str:
    return f"versions.toml {dotted(('stack', stack, kind))}"
