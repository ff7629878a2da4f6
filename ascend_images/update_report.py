"""What is newer than the pins, as text for a terminal."""

from collections.abc import Iterator

from ascend_images.updating import Outdated, Update

_TITLES = {"package": "packages", "source": "sources", "cann": "CANN releases", "base image": "base images"}


def as_text(found: Outdated) -> str:
    """Return what is newer for a terminal, kind by kind, then whom nothing could be learned from."""
    parts = []
    for kind, title in _TITLES.items():
        lines = [line for update in found.updates if update.kind == kind for line in _lines(update, found.variants)]
        if lines:
            parts.append("\n".join([title, *lines]))
    if found.not_reached:
        parts.append("\n".join(["not reached", *_not_reached(found)]))
    if found.not_tried:
        parts.append("\n".join(["not resolved, for want of time", *(f"  {text}" for text in found.not_tried)]))
    if not parts:
        return f"nothing is newer than the pins of {', '.join(found.variants)}"
    return "\n\n".join(parts)


def _not_reached(found: Outdated) -> Iterator[str]:
    for reason, names in found.not_reached.items():
        yield f"  {reason}"
        yield f"    so nothing is known of {', '.join(names)}"


def _lines(update: Update, everyone: tuple[str, ...]) -> Iterator[str]:
    current = f" (now {update.current})" if update.current and update.kind == "package" else ""
    arrow = f" -> {update.newest}" if update.newest else ""
    name = f"{update.name} {_short(update.pinned)}" if update.kind == "base image" else f"{update.name} {update.pinned}"
    for_whom = "" if update.variants == everyone else f"  ({', '.join(update.variants)})"
    yield f"  {name}{current}{arrow}{for_whom}"
    for broken in update.breaks:
        where = f" ({', '.join(broken.variants)})" if broken.variants != update.variants else ""
        verb = "breaks" if broken.known else "not known:"
        wanted = f"; wanted: {broken.wanted}" if broken.wanted else ""
        yield f"      {verb} {broken.rule}{where}: {broken.message}{wanted}"
    if update.breaks and update.fitting:
        yield f"      {update.fitting} breaks none of that"
    for lacks, versions in _by_lack(update).items():
        more = f", …, {versions[-1]}" if len(versions) > 1 else ""
        yield f"      incomplete: {versions[0]}{more}: nothing for {', '.join(lacks)}"
    if update.prerelease:
        yield f"      pre-release: {update.prerelease}"
    if update.moved:
        image = update.kind == "base image"
        yield f"      {'the image behind this name' if image else 'the branch'} is {_short(update.moved)} now"
    yield from (f"      {note}" for note in update.notes)
    if update.bump and (not update.breaks or update.fitting or update.moved):
        if update.unchecked:
            names = ", ".join(update.unchecked)
            yield f"      not checked against the sources: {names} (their files could not be read)"
        yield from (f"      next: {command}" for command in update.bump.splitlines())


def _short(moved: str) -> str:
    """Return a digest or a commit, as much as tells it from another."""
    return moved[:19] if moved.startswith("sha256:") else moved[:12]


def _by_lack(update: Update) -> dict[tuple[str, ...], list[str]]:
    """Return incomplete releases by what they lack."""
    found: dict[tuple[str, ...], list[str]] = {}
    for version, lacks in update.incomplete:
        found.setdefault(lacks, []).append(version)
    return found
