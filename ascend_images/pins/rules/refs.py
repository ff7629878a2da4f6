"""Rules of refs and tags: what a name must say, and go on meaning."""

from collections.abc import Iterator

from ascend_images.images.publish import CHANGED, SANDBOX
from ascend_images.pins.overrides import version_of_ref
from ascend_images.pins.rules.rule import Asked, Problem, Rule
from ascend_images.pins.tags import placeholders

MOVING_REF = "moving-ref"


def _no_moving_ref(asked: Asked) -> Iterator[Problem]:
    if not asked.variant.release:
        return
    for source in asked.variant.sources:
        if not source.commit and not _is_tag(source.ref):
            short = set(source.ref) <= set("0123456789abcdef")
            yield Problem(
                f"{source.name} is at {source.ref}, part of a commit, and this is a release"
                if short
                else f"{source.name} follows {source.ref}, which moves, and this is a release",
                f"its commit in versions.lock (invoke lock --variant {asked.variant.name}), a tag, or release = false",
            )


def _is_tag(ref: str) -> bool:
    """Return whether a ref names one version; a `core_r…` or `release/…` is a branch."""
    return bool(version_of_ref(ref)) and not ref.startswith(("core_r", "r"))


def _tag_says_hardware_and_os(asked: Asked) -> Iterator[Problem]:
    template = asked.variant.tag_template
    named = set(placeholders(template))
    if not named & {"cann_tag", "hardware"}:
        yield Problem(f'the tag "{template}" does not say the hardware', "{cann_tag} in it")
    if "os" not in named:
        yield Problem(f'the tag "{template}" does not say the operating system', "{os} in it")


def _tag_is_of_what_is_pinned(asked: Asked) -> Iterator[Problem]:
    for tag in (asked.variant.tag, *asked.variant.aliases):
        for suffix, whose in ((SANDBOX, "made of stand-ins"), (CHANGED, "changed on the command line")):
            if tag.endswith(suffix):
                yield Problem(
                    f'the tag "{tag}" ends in {suffix}, which says that an image was {whose}', "another end of the tag"
                )


RULES = (
    Rule(MOVING_REF, "a release means the same tomorrow", _no_moving_ref),
    Rule("tag-names", "a tag says hardware and operating system", _tag_says_hardware_and_os),
    Rule("tag-suffix", "a tag says of no pinned image that it is none", _tag_is_of_what_is_pinned),
)
