"""What all commands share: errors become messages and exit codes here and nowhere else, and words become values.

Nothing that is slow to load is imported: every command pays for this module.
"""

import functools
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke.exceptions import Exit, ParseError
from invoke.parser.parser import ParseMachine
from invoke.program import Program

from ascend_images.errors import AscendImagesError, BadInput, MissingTool

if TYPE_CHECKING:
    from datetime import date

    from ascend_images.pins.platform import Arch

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
    SIGTERM, 129 for SIGHUP); what the operating system refuses (no space, no permission) a message and 3. invoke's own
    `--dry`, which these tasks could not obey, is refused.
    """

    @functools.wraps(function)
    def body(context: Any, *arguments: Any, **options: Any) -> None:
        try:
            _refuse_dry(context)
            with _ending_by_signal():
                function(context, *arguments, **options)
                sys.stdout.flush()
        except AscendImagesError as error:
            raise Exit(str(error), code=error.exit_code) from None
        except KeyboardInterrupt as interrupt:
            signum = int(getattr(interrupt, "signum", _SIGINT))
            raise Exit("interrupted", code=_SIGNALLED + signum) from None
        except BrokenPipeError:
            # Whoever read the output has seen enough.
            _drop_output()
            raise Exit(code=_SIGNALLED + _SIGPIPE) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            refusal = MissingTool(f"{where}{error.strerror or error}", wanted="a place that can be read and written")
            _drop_output()
            raise Exit(str(refusal), code=refusal.exit_code) from None

    return body


class Terminated(KeyboardInterrupt):
    """A signal asks this process to end; `signum` is its number."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


@contextmanager
def _ending_by_signal() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end the body as Ctrl-C does, so that what it made for a while is removed.

    One that is ignored (nohup) stays so; another thread than the main one changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(signum: int, _: object) -> None:
        raise Terminated(signum)

    caught = [signum for signum in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(signum) is signal.SIG_DFL]
    for signum in caught:
        signal.signal(signum, end)
    try:
        yield
    finally:
        for signum in caught:
            signal.signal(signum, signal.SIG_DFL)


def _drop_output() -> None:
    """Let what standard output could not take go nowhere: Python would complain once more when it closes it."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def folder(text: str) -> Path:
    """Return the path that a person typed, `~` taken for a home; raises BadInput for that of nobody."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise BadInput(f"{text}: nobody's home is known there", wanted="a path", do="write it in full") from None


def day(text: str, flag: str) -> "date | None":
    """Return the day that a flag names, None where it was not given; raises BadInput for what is no day.

    Nor is the last one that Python knows: whoever asks for a day counts up to the next.
    """
    from datetime import date

    if not text:
        return None
    with suppress(ValueError):
        found = date.fromisoformat(text)
        if found < date.max:
            return found
    raise BadInput(f"{flag} {text}", wanted="a day: YYYY-MM-DD", do=f"{flag} 2026-01-31")


def architectures(arch: Iterable[str] = (), platform: Iterable[str] = ()) -> "tuple[Arch, ...]":
    """Return the architectures typed as `--arch` or `--platform`, each once, in their order; none where none was.

    Both options take words in any case, several divided by commas, and `--platform` also `linux/…`. Raises BadInput for
    anything else.
    """
    from ascend_images.pins.platform import parse_arch, parse_platform

    typed = [parse_arch(word) for word in _words(arch)]
    typed += [parse_platform(word) for word in _words(platform)]
    return tuple(dict.fromkeys(typed))


def excludes(flag: str, given: object, others: Mapping[str, object]) -> None:
    """Raise BadInput where a flag was given together with some that mean nothing beside it."""
    typed = [name for name, value in others.items() if value]
    if given and typed:
        raise BadInput(f"{flag} with {' and '.join(typed)}", wanted=f"{flag} without, which it would not heed")


def source_folders(given: Iterable[str]) -> dict[str, Path]:
    """Return the folders of `--source name=DIR` by name; raises BadInput for another form and a name given twice."""
    folders: dict[str, Path] = {}
    for text in given:
        name, equals, place = text.partition("=")
        name = name.strip()
        if not equals or not name or not place:
            raise BadInput(f'--source "{text}"', wanted="name=DIR", do="--source vllm=../vllm")
        if name.lower() in map(str.lower, folders):
            raise BadInput(f"--source {name} is given twice", wanted="one folder for each source")
        folders[name] = folder(place)
    return folders


def words_after_dashes(argv: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the words of a command line behind its first `--`, as they were typed; those of this process by default.

    invoke joins them by blanks, after which nobody can tell the words apart.
    """
    words = sys.argv if argv is None else argv
    return tuple(words[words.index("--") + 1 :]) if "--" in words else ()


def _words(texts: Iterable[str]) -> Sequence[str]:
    return [word for text in texts for word in text.split(",")]


def _refuse_dry(context: Any) -> None:
    if context.config.run.dry:
        raise BadInput(
            "--dry is invoke's own and would build all the same",
            wanted="--dry-run, which prints what would be built",
            do="invoke build --variant a2 --dry-run",
        )


def _require_text(words: Iterable[str]) -> None:
    """Raise Exit for words that are no text: they could neither be shown nor written."""
    for word in words:
        if any("\ud800" <= character <= "\udfff" for character in word):
            shown = word.encode("utf-8", "backslashreplace").decode()
            raise Exit(f"the word {shown} of the command line is not text in UTF-8", code=USAGE_ERROR)


def _prepare_streams() -> None:
    """Make standard streams take all that may be printed: closed ones nothing, those of a plain locale any text."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # In place of the number too: a file opened later would get it, and the output of other programs.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: SIM115, PTH123 - as long as Python runs
        elif isinstance(getattr(sys, name), io.TextIOWrapper):
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _as_usage_error(parse: Callable[[Program], None]) -> Callable[[Program], None]:
    """Wrap a step of invoke's program: what cannot be parsed ends in exit code 2 instead of 1."""

    @functools.wraps(parse)
    def step(program: Program) -> None:
        _prepare_streams()
        _require_text(program.argv)
        try:
            parse(program)
        except (ParseError, ValueError) as error:
            # A ValueError is what int() says of the value of a flag that takes a number.
            said = str(error)
            if isinstance(error, ValueError):
                said = f"{said.rpartition(': ')[2]} is not a whole number"
            raise Exit(f"{said}\n  next:   invoke --list, or invoke --help VERB", code=USAGE_ERROR) from None

    return step


def _needing_values(complete: Callable[[ParseMachine], None]) -> Callable[[ParseMachine], None]:
    """Wrap the end of a flag: one that takes a value and got none, or an empty one, is an error wherever it stands.

    invoke notices that of the first flag of a name alone.
    """

    @functools.wraps(complete)
    def step(machine: ParseMachine) -> None:
        flag = machine.flag
        if flag and flag.takes_value and not flag.optional:
            got = machine.flag_got_value and flag.raw_value != ""
            if not got:
                machine.error(f"--{flag.names[0].replace('_', '-')} needs a value and was not given one")
        complete(machine)

    return step


# invoke exits 1 on a line it cannot parse, and offers no setting. It loads the tasks, and this module with them, before
# it parses what follows `invoke`, so its steps can still be wrapped; it shows an Exit's message and obeys its code.
# The parser's errors stay its own: shell completion relies on them.
if not hasattr(Program.parse_tasks, "__wrapped__"):
    ParseMachine.complete_flag = _needing_values(ParseMachine.complete_flag)  # type: ignore[assignment]
    Program.parse_tasks = _as_usage_error(Program.parse_tasks)  # type: ignore[assignment]
    Program.parse_cleanup = _as_usage_error(Program.parse_cleanup)  # type: ignore[assignment]
