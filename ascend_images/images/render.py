"""Variant to Dockerfile: a pure function of the variant and the files in dockerfiles/templates."""

import functools
import os
from dataclasses import fields
from pathlib import Path

import jinja2

from ascend_images.errors import BadInput
from ascend_images.images.view import view_of
from ascend_images.pins.variant import Variant

TEMPLATES = Path(__file__).resolve().parents[2] / "dockerfiles" / "templates"
_TEMPLATE = "Dockerfile.j2"
#: Scripts that a rendered file carries along, as they stand.
LIBRARY = ("build.sh", "base_packages.py", "session.py", "patch.py")


def render(variant: Variant) -> str:
    """Return the Dockerfile of a variant.

    The same text for the same variant, whenever and wherever: no network, no clock, no environment. Raises BadInput
    for a template that names what there is not, and for pins that cannot stand in a Dockerfile.
    """
    view = view_of(variant, _library())
    values = {field.name: getattr(view, field.name) for field in fields(view)}
    try:
        text = _template().render(values)
    except jinja2.UndefinedError as error:
        raise BadInput(
            f"the template {_TEMPLATE} names what there is not: {error.message}",
            wanted="one of " + ", ".join(values),
            do=f"see dockerfiles/templates/{_TEMPLATE}, and ascend_images/images/view.py for what it may name",
        ) from None
    return text


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        # The usual mark of a comment is also how bash writes a length: ${#names[@]}.
        comment_start_string="{{#",
        comment_end_string="#}}",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - a Dockerfile is not HTML
        auto_reload=False,
        bytecode_cache=_bytecode_cache(),
    )
    try:
        return environment.get_template(_TEMPLATE)
    except jinja2.TemplateSyntaxError as error:
        raise BadInput(f"dockerfiles/templates/{_TEMPLATE}:{error.lineno}: {error.message}", wanted="Jinja2") from None


def _bytecode_cache() -> jinja2.BytecodeCache | None:
    """Return where the compiled template is kept, by the hash of its text, or None where nothing can be written.

    Compiling it takes as long as rendering every variant.
    """
    folder = TEMPLATES.parents[1] / "build" / "templates"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return jinja2.FileSystemBytecodeCache(str(folder)) if os.access(folder, os.W_OK) else None


@functools.cache
def _library() -> dict[str, str]:
    return {name: (TEMPLATES / name).read_text(encoding="utf-8") for name in LIBRARY}
