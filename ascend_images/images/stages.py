"""The stages of a Dockerfile: a named context replaces the one of its name, and is silently ignored without one."""

import re

from ascend_images.errors import BadInput
from ascend_images.images.dockerfile import instructions

#: What BuildKit takes for the name of a stage (the Dockerfile reference).
STAGE_NAME = re.compile(r"[a-z][a-z0-9-_.]*")


def stage_names(dockerfile: str) -> tuple[str, ...]:
    """Return the names of the stages in a Dockerfile's text, in their order, in lower case.

    The last stage of a rendered file has no name, so it is not among them. Raises BadInput for a name that BuildKit
    would not take or that stands twice: the second would hide the first.
    """
    names: list[str] = []
    for instruction in instructions(dockerfile):
        if instruction.name != "FROM":
            continue
        words = instruction.text.split()
        if len(words) != 3 or words[1].upper() != "AS":
            continue
        name = words[2].lower()
        if not STAGE_NAME.fullmatch(name):
            raise BadInput(f'line {instruction.line}: "{name}" is no name for a stage', wanted=STAGE_NAME.pattern)
        if name in names:
            raise BadInput(f'line {instruction.line}: a second stage called "{name}"', wanted="each name once")
        names.append(name)
    return tuple(names)
