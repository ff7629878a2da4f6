"""Variant to Dockerfile: a pure function of the variant and the files in dockerfiles/templates."""

import functools
import os
import traceback
from dataclasses import fields
from pathlib import Path

import jinja2

from ascend_images.errors import BadInput
from ascend_images.files import read_regular
from ascend_images.images.view import view_of
from ascend_images.pins.variant import Variant

TEMPLATES = Path(__file__).resolve().parents[2] / "dockerfiles" / "templates"
_TEMPLATE = "Dockerfile.j2"
#: Scripts that a rendered file carries along, as they stand.
LIBRARY = ("build.sh", "base_packages.py", "session.py", "registered.py", "patch.py")


def render(variant: Variant) -> str:
    """Return the Dockerfile of a variant.

    The same text for the same variant, whenever and wherever: no network, no clock, no environment. Raises BadInput
    for a template that names what there is not, and for pins that cannot stand in a Dockerfile.
    """
    view = view_of(variant, _library())
    values = {field.name: getattr(view, field.name) for field in fields(view)}
    template = _template()
    try:
        text = template.render(values)
    except jinja2.UndefinedError as error:
        raise BadInput(
            f"the template {_TEMPLATE} names what there is not: {error.message}",
            wanted="one of " + ", ".join(values),
            do=f"see dockerfiles/templates/{_TEMPLATE}, and ascend_images/images/view.py for what it may name",
        ) from None
    except Exception as error:  # what an expression of a template may raise is up to who wrote it
        raise BadInput(
            f"dockerfiles/templates/{_TEMPLATE}{_template_line(error)}: {type(error).__name__}: {error}",
            wanted="a template that renders",
            do=f"mend dockerfiles/templates/{_TEMPLATE}",
        ) from None
    return text


def _template_line(error: Exception) -> str:
    """Return `:N` for the line of the template at which an error was raised, nothing where it is not known."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename.endswith(_TEMPLATE)]
    return f":{lines[-1]}" if lines else ""


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
    except jinja2.TemplateNotFound:
        raise _not_there(_TEMPLATE, "No such file or directory") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _not_there(_TEMPLATE, _why(error)) from None


def _not_there(name: str, why: str) -> BadInput:
    return BadInput(
        f"dockerfiles/templates/{name}: {why}",
        wanted="the template and its scripts as they come with this project, in UTF-8",
        do=f"git checkout -- dockerfiles/templates/{name}",
    )


def _why(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    return error.strerror or str(error)


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
    return {name: _script(name) for name in LIBRARY}


def _script(name: str) -> str:
    try:
        return read_regular(TEMPLATES / name).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise _not_there(name, _why(error)) from None
