"""What all commands share: errors become messages and exit codes here and nowhere else, and words become values.

Nothing that is slow to load is imported: every command pays for this module.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke.exceptions import Exit, ParseError
from invoke.program import Program

from ascend_images.errors import AscendImagesError, BadInput, MissingTool

if TYPE_CHECKING:
    from ascend_images.pins.platform import Arch
    from ascend_images.pins.variant import Variant

# invoke keeps Python from writing bytecode (its --write-pyc), and compiling takes longer than rendering every variant.
sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))

USAGE_ERROR = BadInput.exit_code
# A shell's own rule: 128 and the number of the signal.
_SIGNALLED = 128
_SIGINT = 2
_SIGPIPE = 13


def reporting(function: Callable[..., None]) -> Callable[..., None]:
    """Make the body of an invoke task end as commands here do.

    A failure for people becomes its message on standard error and its own exit code; an interruption 130 (143 for
    SIGTERM); what the operating system refuses (no space, no permission) a message and 3. invoke's own `--dry`, which
    these tasks could not obey, is refused.
    """

    @functools.wraps(function)
    def body(context: Any, *arguments: Any, **options: Any) -> None:
        try:
            _refuse_dry(context)
            function(context, *arguments, **options)
            sys.stdout.flush()
        except AscendImagesError as error:
            raise Exit(str(error), code=error.exit_code) from None
        except KeyboardInterrupt as interrupt:
            signum = int(getattr(interrupt, "signum", _SIGINT))
            raise Exit("interrupted", code=_SIGNALLED + signum) from None
        except BrokenPipeError:
            # Whoever read the output has seen enough; Python would complain once more when it closes standard output.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise Exit(code=_SIGNALLED + _SIGPIPE) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            refusal = MissingTool(f"{where}{error.strerror or error}", wanted="a place that can be read and written")
            raise Exit(str(refusal), code=refusal.exit_code) from None

    return body


def architectures(arch: Iterable[str] = (), platform: Iterable[str] = ()) -> "tuple[Arch, ...]":
    """Return the architectures typed as `--arch` or `--platform`, each once, in their order; none where none was.

    Both options take words in any case, several divided by commas, and `--platform` also `linux/…`. Raises BadInput for
    anything else.
    """
    from ascend_images.pins.platform import parse_arch, parse_platform

    typed = [parse_arch(word) for word in _words(arch)]
    typed += [parse_platform(word) for word in _words(platform)]
    return tuple(dict.fromkeys(typed))


def source_folders(given: Iterable[str]) -> dict[str, Path]:
    """Return the folders of `--source name=DIR` by name; raises BadInput for another form and a name given twice."""
    folders: dict[str, Path] = {}
    for text in given:
        name, equals, folder = text.partition("=")
        name = name.strip()
        if not equals or not name or not folder:
            raise BadInput(f'--source "{text}"', wanted="name=DIR", do="--source vllm=../vllm")
        if name.lower() in map(str.lower, folders):
            raise BadInput(f"--source {name} is given twice", wanted="one folder for each source")
        folders[name] = Path(folder).expanduser()
    return folders


def refuse_broken(variants: "Iterable[Variant]") -> None:
    """Raise BadInput, naming each rule that is broken and not accepted, if there is one."""
    broken = [
        f"{variant.name}: {finding.rule}: {finding.message}"
        for variant in variants
        for finding in variant.findings
        if finding.state == "broken"
    ]
    if broken:
        raise BadInput("\n".join(broken), wanted="pins that fit together, or an accept with its reason")


def _words(texts: Iterable[str]) -> Sequence[str]:
    return [word for text in texts for word in text.split(",")]


def _refuse_dry(context: Any) -> None:
    if context.config.run.dry:
        raise BadInput(
            "--dry is invoke's own and would build all the same",
            wanted="--dry-run, which prints what would be built",
            do="invoke build --variant a2 --dry-run",
        )


def _as_usage_error(parse: Callable[[Program], None]) -> Callable[[Program], None]:
    """Wrap a step of invoke's program: what cannot be parsed ends in exit code 2 instead of 1."""

    @functools.wraps(parse)
    def step(program: Program) -> None:
        try:
            parse(program)
        except (ParseError, ValueError) as error:
            # A ValueError is what int() says of the value of a flag that takes a number.
            said = str(error)
            if isinstance(error, ValueError):
                said = f"{said.rpartition(': ')[2]} is not a whole number"
            raise Exit(f"{said}\n  next:   invoke --list, or invoke --help VERB", code=USAGE_ERROR) from None

    return step


# invoke exits 1 on a line it cannot parse, and offers no setting. It loads the tasks, and this module with them, before
# it parses what follows `invoke`, so its steps can still be wrapped; it shows an Exit's message and obeys its code.
# The parser itself stays as it is: shell completion relies on its own error.
if not hasattr(Program.parse_tasks, "__wrapped__"):
    Program.parse_tasks = _as_usage_error(Program.parse_tasks)  # type: ignore[assignment]
    Program.parse_cleanup = _as_usage_error(Program.parse_cleanup)  # type: ignore[assignment]
