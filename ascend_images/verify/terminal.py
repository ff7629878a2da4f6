"""A report for a terminal, and the words in which every kind of report tells the same."""

import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ascend_images.errors import one_line
from ascend_images.inside.words import visible
from ascend_images.verify.report import Report, Result, verdict

if TYPE_CHECKING:
    from rich.table import Table

_STYLES: Mapping[str, str] = {"fail": "bold red", "unknown": "yellow", "not run": "dim", "pass": "green"}
#: Columns of a terminal below which words no longer fit beside the answers.
_NARROWEST = 24
#: Characters of a digest that people compare, of one of the host's words in a line of them, and of a cause behind the
#: name of the check that tells all of it.
_SHORT_DIGEST, _SHORT_WORD, _SHORT_CAUSE = 12, 60, 60

# How a check names the finding on which it hangs.
_BECAUSE = re.compile(r"(?P<check>because of [\w-]+): (?P<cause>.*)", re.DOTALL)


def about(result: Result) -> str:
    """Return what a result is about: `check: subject`, or `check` where it has no subject."""
    return f"{result.check}: {result.subject}" if result.subject else result.check


def short_digest(digest: str) -> str:
    """Return the first characters of a digest without its algorithm, empty for an empty one."""
    return digest.rpartition(":")[2][:_SHORT_DIGEST]


def overall(results: Sequence[Result]) -> str:
    """Return what some results say as a whole, empty where there is none: nothing asked is not even `not run`."""
    return verdict(results).value if results else ""


def passing(report: Report) -> list[str]:
    """Return the checks that pass as a whole, in the order in which they were asked."""
    return [check for check, said in report.verdicts.items() if said == "pass"]


def several(number: int, name: str) -> str:
    """Return a number with its word: 1 image, 2 images."""
    return f"{number} {name}{'' if number == 1 else 's'}"


def counted(counts: Mapping[str, int]) -> str:
    """Return how many there are of each answer, in words."""
    return ", ".join(f"{number} {answer}" for answer, number in counts.items())


def reason(result: Result) -> str:
    """Return why a check gave no answer, short where another check of the same report tells the cause in full."""
    found = _BECAUSE.fullmatch(result.found) if result.answer == "not run" else None
    if found is None or (len(found["cause"]) <= _SHORT_CAUSE and "\n" not in found["cause"]):
        return result.found
    return found["check"]


def host_line(host: Mapping[str, Any]) -> str:
    """Return what is known of a host as one line: `key value`, lists counted; what is empty or nested is left out."""
    return ", ".join(f"{one_line(str(key))} {word}" for key, value in host.items() if (word := _word(value)))


def _word(value: Any) -> str:
    if value is None or isinstance(value, Mapping):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Sequence) and not isinstance(value, str):
        words = Counter(word for one in value if not _is_nested(one) and (word := _word(one)))
        many = [word if number == 1 else f"{number} × {word}" for word, number in words.items()]  # noqa: RUF001
        return one_line(" ".join(many), _SHORT_WORD)
    return one_line(str(value), _SHORT_WORD)


def _is_nested(value: Any) -> bool:
    return isinstance(value, (Mapping, Sequence)) and not isinstance(value, str)


class Alike(NamedTuple):
    """Results that say the same: many checks may lack the pins, or the driver. `subjects` by check."""

    answer: str
    found: str
    next: str
    subjects: dict[str, list[str]]

    @property
    def names(self) -> str:
        """The checks that say so, each with its subjects."""
        return ", ".join(
            f"{check} ({', '.join(subjects)})" if subjects else check for check, subjects in self.subjects.items()
        )


def alike(results: Iterable[Result]) -> list[Alike]:
    """Group results by answer, reason and next step, in the order in which they first occur."""
    groups: dict[tuple[str, str, str], Alike] = {}
    for result in results:
        key = (result.answer, reason(result), result.next)
        subjects = groups.setdefault(key, Alike(*key, {})).subjects.setdefault(result.check, [])
        if result.subject and result.subject not in subjects:
            subjects.append(result.subject)
    return list(groups.values())


def table(report: Report, *, width: int, color: bool) -> str:
    """Return a report for people: failures first and whole, then what is not known by reason, then passes as names.

    What the last line counts are checks, by what each says as a whole. `width` is the terminal's, in columns. Without
    `color` there is no escape sequence in it.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(
        file=io.StringIO(),
        width=max(width, _NARROWEST),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        _environ={},  # the caller decides, not COLUMNS or TERM
    )
    with console.capture() as caught:
        # Texts as Text: brackets are markup in a plain string.
        console.print(Text(one_line(f"{report.name}  {report.platform}"), style="bold"))
        console.print(_image(report))
        console.print()
        for result in report.of("fail"):
            console.print(Text.assemble(("FAIL", _STYLES["fail"]), "  ", one_line(about(result))))
            console.print(_finding(result))
        console.print(_rest(report))
        console.print()
        total = f"{one_line(report.name)}: {several(len(report.verdicts), 'check')}: {counted(report.counts)}"
        console.print(Text(total, style=_STYLES[overall(report.results) or "unknown"]))
    return "".join(f"{line.rstrip()}\n" for line in caught.get().splitlines())


def _grid(*, indent: int = 0) -> "Table":
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    if indent:
        grid.add_column(width=indent)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold", ratio=1)
    grid.expand = True
    return grid


def _image(report: Report) -> "Table":
    from rich.text import Text

    grid = _grid()
    host = host_line(report.host) or "not known"
    for label, value in (("image", report.image), ("digest", report.digest or "not known"), ("host", host)):
        grid.add_row(Text(label, style="dim"), Text(one_line(value)))
    return grid


def _finding(result: Result) -> "Table":
    from rich.text import Text

    grid = _grid(indent=2)
    for label, value in (("found", result.found), ("wanted", result.wanted), ("next", result.next)):
        if value:
            grid.add_row("", Text(label, style="dim"), Text(visible(value).strip("\n")))
    return grid


def _rest(report: Report) -> "Table":
    from rich.text import Text

    grid = _grid()
    for group in alike([*report.of("unknown"), *report.of("not run")]):
        then = f" ({one_line(group.next)})" if group.next else ""
        text = Text.assemble(one_line(group.names), ": ", one_line(group.found), (then, "dim"))
        grid.add_row(Text(group.answer, style=_STYLES[group.answer]), text)
    if names := passing(report):
        grid.add_row(Text("pass", style=_STYLES["pass"]), Text(one_line(", ".join(names))))
    return grid
