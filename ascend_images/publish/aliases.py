"""Readable names besides a variant's tag that always stand for the newest: `latest-ms-swift-910b-ubuntu`."""

from collections.abc import Iterable, Mapping

from ascend_images.errors import BadInput
from ascend_images.pins.tags import render_tag
from ascend_images.pins.variant import Variant

#: The form of an alias.
TEMPLATE = "latest-{stack}-{cann_tag}-{os}"


def aliases(variants: Iterable[Variant]) -> dict[str, tuple[str, ...]]:
    """Return the aliases of each variant by its name.

    An overlay has none: it is another way to what a plain variant may be. Raises BadInput where two variants of one
    repository would have the same, or where one is another's tag.
    """
    known = tuple(variants)
    owners: dict[tuple[str, str], str] = {(one.repository, one.tag): one.name for one in known}
    made: dict[str, tuple[str, ...]] = {one.name: () for one in known}
    for one in known:
        if one.overlay:
            continue
        alias = render_tag(TEMPLATE, _values(one), exact={"cann_tag", "os"})
        owner = owners.setdefault((one.repository, alias), one.name)
        if owner != one.name:
            raise BadInput(
                f'variants "{owner}" and "{one.name}" would both be {one.repository}:{alias}',
                wanted="a name of its own for each variant",
                do="give one of them a stack of its own, or another repository",
            )
        made[one.name] = (alias,)
    return made


def _values(variant: Variant) -> Mapping[str, str]:
    return {"stack": variant.stack, "cann_tag": variant.chip.cann_tag, "os": variant.os_family}
