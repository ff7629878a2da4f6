"""Readable names besides a variant's tag that always stand for the newest: `latest-ms-swift-910b-ubuntu`."""

from collections.abc import Iterable

from ascend_images.errors import BadInput
from ascend_images.pins.model import Pins
from ascend_images.pins.resolve import tag_values
from ascend_images.pins.tags import EXACT_PLACEHOLDERS, render_tag
from ascend_images.pins.variant import Variant


def aliases(pins: Pins, variants: Iterable[Variant]) -> dict[str, tuple[str, ...]]:
    """Return the aliases of each variant by its name, from the templates of its stack.

    An overlay has none: it is another way to what a plain variant may be. Raises BadInput where two variants of one
    repository would have the same, where one is another's tag, and for a template that gives no tag.
    """
    known = tuple(variants)
    owners: dict[tuple[str, str], str] = {(one.repository, one.tag): one.name for one in known}
    made: dict[str, tuple[str, ...]] = {one.name: () for one in known}
    for one in known:
        if one.overlay:
            continue
        names = tuple(dict.fromkeys(_alias(template, one) for template in pins.stack[one.stack].alias_tags))
        for alias in names:
            owner = owners.setdefault((one.repository, alias), one.name)
            if owner != one.name:
                raise BadInput(
                    f'variants "{owner}" and "{one.name}" would both be {one.repository}:{alias}',
                    wanted="a name of its own for each variant",
                    do=f"give one of them a stack or a repository of its own, or change stack.{one.stack}.alias_tags",
                )
        made[one.name] = names
    return made


def _alias(template: str, variant: Variant) -> str:
    values = {**tag_values(variant), "stack": variant.stack, "os_family": variant.os_family}
    if "{cann_tag}" in template:
        # A stack for one chip alone is called by it: a name says that once.
        for chip in (variant.chip.cann_tag, variant.hardware):
            values["stack"] = values["stack"].removesuffix(f"-{chip}")
    return render_tag(template, values, exact={*EXACT_PLACEHOLDERS, "os_family"})
