"""What is generated and committed besides locks: the rendered files, and the JSON schema of versions.toml."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ascend_images.errors import CheckFailed
from ascend_images.files import write_atomic
from ascend_images.images.rendered import SUFFIXES, require_rendered, write_rendered
from ascend_images.selection import Selection


def write(selection: Selection, *, everything: bool) -> list[Path]:
    """Write the rendered files that are out of date; return their paths below the project's root.

    `everything`: all variants were chosen, so files of others are removed.
    """
    changed = write_rendered(selection.output, selection.variants, all_of_them=everything and not selection.changed)
    return [(selection.output / path).relative_to(selection.root) for path in changed]


def turns(selection: Selection, sources: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of what must be had alone where files below `build/` are written that are no architecture's.

    Those are a variant's rendered files and facts, once the command line changed its pins or local `sources` are taken.
    """
    own = selection.changed or any(sources)
    return tuple(f"files-{variant.name}" for variant in selection.variants) if own else ()


@contextmanager
def held(selection: Selection, say: Callable[[str], None], sources: Iterable[str] = ()) -> Iterator[None]:
    """Hold what `turns` names for this process alone meanwhile, `say` telling that it waits; raises OSError."""
    names = turns(selection, sources)
    if not names:
        # The tree may be one that cannot be written to.
        yield
        return
    from ascend_images.images.turns import in_turn

    with in_turn(selection.root, names, say):
        yield


def require_current(selection: Selection, *, everything: bool) -> None:
    """Raise CheckFailed, listing each rendered file that is out of date and the command that mends it, if any is.

    So is one of pins that versions.lock does not answer any more: each of those is named.
    """
    require_rendered(selection.output, selection.variants, all_of_them=everything and not selection.changed)
    moved = [one for one in selection.unanswered() if one.state != "missing"]
    if moved:
        raise CheckFailed(
            "\n".join(map(str, moved)),
            wanted="; ".join(dict.fromkeys(one.wanted for one in moved)),
            do="\n          ".join(dict.fromkeys(one.do for one in moved)),
        )


def up_to_date(selection: Selection) -> str:
    """Return what is said where nothing had to be written."""
    return f"{len(SUFFIXES) * len(selection.variants)} files up to date"


def write_check_docs(root: Path) -> Path:
    """Write docs/verify.md, every check of a verification; return its path below the project's root."""
    from ascend_images.inside.checks import CHECKS
    from ascend_images.verify.checks_doc import document
    from ascend_images.verify.outside import FIRST, LAST

    path = Path("docs") / "verify.md"
    write_atomic(root / path, document([*FIRST, *LAST, *CHECKS]).encode())
    return path


def write_schema(root: Path) -> Path:
    """Write the JSON schema; return its path below the project's root."""
    # Not for every rendering: it is a third of its time.
    from ascend_images.pins.schema import SCHEMA_FILE, schema_text

    write_atomic(root / SCHEMA_FILE, schema_text())
    return Path(SCHEMA_FILE)
