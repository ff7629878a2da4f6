"""The lists of supported tags, in English and Chinese, from versions.toml and published.json; never typed by hand."""

import html
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ascend_images.errors import BadInput, CheckFailed
from ascend_images.files import write_atomic
from ascend_images.pins.cann_version import ReleaseVersion
from ascend_images.pins.drivers import DriverRange
from ascend_images.pins.model import Pins, Series
from ascend_images.pins.variant import Variant
from ascend_images.publish.aliases import aliases
from ascend_images.publish.published import Facts, Publication, Published, facts_of
from ascend_images.publish.tag_words import PAGES, Words

# Signs that would end a cell or begin markup, as references that every Markdown shows as the signs.
_MARKUP = str.maketrans({sign: f"&#{ord(sign)};" for sign in "\\|`*["})


def page(words: Words, pins: Pins, variants: Sequence[Variant], published: Published) -> str:
    """Return one page as Markdown; raises BadInput where aliases of variants clash."""
    newest = [(one, _end(words, one, published, variants)) for one in _newest(published)]
    current = [(one, end) for one, end in newest if not end]
    ended = [(one, end) for one, end in newest if end]
    waiting = [one for one in variants if not any(_names(two, one) for two, _ in current)]
    parts = [f"# {words.title}", f"<!-- {words.made} -->", words.intro if newest else words.nothing]
    for head, group in ((words.supported, current), (words.history, ended)):
        if group:
            rows = [_row(words, pins, one, end, published) for one, end in group]
            parts += [f"## {head}", _table(words.columns, rows)]
    parts.append(f"## {words.planned}")
    if waiting:
        more = aliases(pins, variants)
        rows = [_planned_row(words, pins, one, more[one.name]) for one in waiting]
        parts += [words.planned_intro, _table(words.planned_columns, rows)]
    else:
        parts.append(words.all_published)
    return "\n\n".join(parts) + "\n"


def write_pages(root: Path, make: Callable[[Words], str]) -> list[Path]:
    """Write the pages that are out of date; return their paths below the root."""
    changed = _out_of_date(root, make)
    for path in changed:
        write_atomic(root / path, make(PAGES[path]))
    return [Path(path) for path in changed]


def require_pages(root: Path, make: Callable[[Words], str]) -> None:
    """Raise CheckFailed, naming each page that is out of date, if any is."""
    stale = _out_of_date(root, make)
    if stale:
        raise CheckFailed(
            "\n".join(f"out of date: {path}" for path in stale),
            wanted="what versions.toml and published.json say",
            do="invoke tags",
        )


def _out_of_date(root: Path, make: Callable[[Words], str]) -> list[str]:
    return [path for path, words in PAGES.items() if _text(root / path) != make(words)]


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _newest(published: Published) -> list[Publication]:
    """Return the last publication of each tag, the newest first."""
    last: dict[tuple[str, str], Publication] = {}
    for one in reversed(published.publications):
        last.setdefault((one.repository, one.tag), one)
    return list(last.values())


def _end(words: Words, one: Publication, published: Published, variants: Sequence[Variant]) -> str:
    """Return since when a tag is not supported, empty while it is: until its variant has another tag, or is gone."""
    later = [
        other.when
        for other in published.publications[published.publications.index(one) + 1 :]
        if (other.variant, other.stand_in) == (one.variant, one.stand_in)
        and (other.repository, other.tag) != (one.repository, one.tag)
    ]
    if later:
        return _cell(later[0][:10])
    return "" if any(one.variant == variant.name for variant in variants) else words.gone


def _names(one: Publication, variant: Variant) -> bool:
    return (one.variant, one.repository, one.tag) == (variant.name, variant.repository, variant.tag)


def _row(words: Words, pins: Pins, one: Publication, end: str, published: Published) -> list[str]:
    notes = [words.stand_in] if one.stand_in else []
    if one.waived:
        notes.append(words.not_on_npu.format(why="; ".join(sorted(set(one.waived.values())))))
    # An alias stands for what was published under it last.
    aliases = [alias for alias in one.aliases if published.of_tag(one.repository, alias)[-1] == one]
    tags = [f"`{one.repository}:{tag}`" for tag in (one.tag, *aliases)]
    return [
        _lines([*tags, *_experimental(words, one.facts), *map(_cell, notes)]),
        _lines(one.platforms),
        *_facts(words, pins, one.facts),
        f"`{one.digest}`",
        _dockerfile(one),
        _cell(one.when[:10]),
        end or _last_day(pins, one) or words.until_replaced,
    ]


def _last_day(pins: Pins, one: Publication) -> str:
    """Return until when a tag's stack is supported as versions.toml has it now, empty where nobody says."""
    return pins.stack[pins.variant[one.variant].stack].end_of_support


def _planned_row(words: Words, pins: Pins, variant: Variant, more: Sequence[str]) -> list[str]:
    facts = facts_of(variant)
    tags = [f"`{variant.repository}:{tag}`" for tag in (variant.tag, *more)]
    return [
        _lines([*tags, *_experimental(words, facts)]),
        f"`{variant.name}`",
        _lines(arch.platform for arch in variant.platforms),
        *_facts(words, pins, facts),
    ]


def _facts(words: Words, pins: Pins, facts: Facts) -> list[str]:
    cann = facts.cann
    if facts.base_cann != facts.cann:
        cann = words.overlay.format(cann=facts.cann, base=facts.base_cann)
    return [
        f"{_cell(facts.hardware_name)} ({_cell(facts.chip)})",
        _cell(cann),
        _cell(facts.os),
        _cell(facts.python),
        _lines(f"{_cell(name)} {_short(version)}" for name, version in facts.components.items()),
        _drivers(words, pins, facts),
    ]


def _experimental(words: Words, facts: Facts) -> list[str]:
    return [_cell(words.experimental.format(why=facts.experimental))] if facts.experimental else []


def _drivers(words: Words, pins: Pins, facts: Facts) -> str:
    """Return the host drivers that a CANN release takes on this hardware, as versions.toml has them now."""
    try:
        series = pins.series.get(ReleaseVersion.parse(facts.cann).series, Series())
    except BadInput:
        return words.not_told
    own = any(facts.hardware in other.drivers_for for other in pins.series.values())
    lines = series.drivers_for.get(facts.hardware, ()) if own else series.drivers
    return ", ".join(_cell(str(DriverRange.parse(line))) for line in lines) or words.not_told


def _dockerfile(one: Publication) -> str:
    """Return where the rendered file lies at the commit that was built, as a link where this project is on the web."""
    name = one.dockerfile.rpartition("/")[2]
    if not one.source:
        return f"`git show {one.commit[:12]}:{one.dockerfile}`"
    return f"[{name}]({one.source}/blob/{one.commit}/{one.dockerfile})"


def _short(version: str) -> str:
    whole_commit = len(version) == len("0" * 40) and not version.strip("0123456789abcdef")
    return version[:12] if whole_commit else _cell(version)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _lines(texts: Iterable[str]) -> str:
    return "<br>".join(texts)


def _cell(text: str) -> str:
    """Return a text that stays in its cell and is no markup."""
    return html.escape(" ".join(text.split()), quote=False).translate(_MARKUP)
