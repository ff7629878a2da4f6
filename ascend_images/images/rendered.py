"""The committed output: writes dockerfiles/rendered, and says which of its files are out of date."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ascend_images.errors import CheckFailed
from ascend_images.files import write_atomic
from ascend_images.images.image_json import image_json
from ascend_images.images.render import render
from ascend_images.pins.variant import Variant

#: Where rendered files lie, below the repository's root.
RENDERED = Path("dockerfiles") / "rendered"
#: The files of each variant, by the end of their name.
SUFFIXES = (".Dockerfile", ".image.json")
_SNIPPET = 12  # lines of difference shown for each file


class State(StrEnum):
    """What is wrong with a committed file."""

    CHANGED = "is out of date"
    MISSING = "is missing"
    LEFTOVER = "belongs to no variant"


@dataclass(frozen=True, kw_only=True)
class Stale:
    """A file that is not what the pins and the template give; `path` is below the root, `do` mends it."""

    path: Path
    state: State
    snippet: str
    do: str

    def __str__(self) -> str:
        lines = [f"{self.path} {self.state}", *(f"  {line}" for line in self.snippet.splitlines())]
        return "\n".join([*lines, f"  next:   {self.do}"])


def dockerfile_path(root: Path, variant: str) -> Path:
    """Return where the Dockerfile of the variant called `variant` lies."""
    return root / RENDERED / f"{variant}.Dockerfile"


def image_json_path(root: Path, variant: str) -> Path:
    """Return where the image.json of the variant called `variant` lies."""
    return root / RENDERED / f"{variant}.image.json"


def rendered_files(variant: Variant) -> dict[str, str]:
    """Return the text of each rendered file of a variant, by its name."""
    return {f"{variant.name}.Dockerfile": render(variant), f"{variant.name}.image.json": image_json(variant)}


def check_rendered(root: Path, variants: Iterable[Variant], *, all_of_them: bool = True) -> list[Stale]:
    """Return the files below `root` that are not what `variants` give; the list is sorted.

    `all_of_them`: these are all variants there are, so a file of another is left over. Nothing is written. Files of
    another kind are left out of account.
    """
    wanted = _wanted(variants)
    found = _found(root)
    stale = [_leftover(name) for name in found if name not in wanted] if all_of_them else []
    for name, text in wanted.items():
        variant = name.removesuffix(".Dockerfile").removesuffix(".image.json")
        do = f"invoke render --variant {variant}"
        if name not in found:
            stale.append(Stale(path=RENDERED / name, state=State.MISSING, snippet="", do=do))
        elif found[name] != text:
            stale.append(Stale(path=RENDERED / name, state=State.CHANGED, snippet=_snippet(found[name], text), do=do))
    return sorted(stale, key=lambda one: str(one.path))


def require_rendered(root: Path, variants: Iterable[Variant], *, all_of_them: bool = True) -> None:
    """Raise CheckFailed, listing what `check_rendered` finds with the commands that mend it, if it finds anything."""
    chosen = tuple(variants)
    stale = check_rendered(root, chosen, all_of_them=all_of_them)
    if stale:
        only = "" if all_of_them else "".join(f" --variant {variant.name}" for variant in chosen)
        raise CheckFailed(
            "\n".join(str(one) for one in stale),
            wanted="rendered files that are what versions.toml and dockerfiles/templates give",
            do=f"invoke render{only}",
        )


def write_rendered(root: Path, variants: Iterable[Variant], *, all_of_them: bool = False) -> list[Path]:
    """Write the files of `variants` that are not up to date; return the paths written or removed, below `root`.

    All texts are made before the first file is written. `all_of_them`: these are all variants there are, so files of
    others are removed. Raises what `render` raises, and OSError.
    """
    wanted = _wanted(variants)
    found = _found(root)
    changed = []
    for name, text in wanted.items():
        if found.get(name) != text:
            write_atomic(root / RENDERED / name, text)
            changed.append(RENDERED / name)
    for name in found if all_of_them else ():
        if name not in wanted:
            (root / RENDERED / name).unlink()
            changed.append(RENDERED / name)
    return sorted(changed)


def _wanted(variants: Iterable[Variant]) -> dict[str, str]:
    return {name: text for variant in variants for name, text in rendered_files(variant).items()}


def _found(root: Path) -> dict[str, str]:
    folder = root / RENDERED
    if not folder.is_dir():
        return {}
    # What an editor leaves beside a file that it has open (`.#a2.Dockerfile`) is nobody's file.
    named = (path for path in folder.iterdir() if path.name.endswith(SUFFIXES) and not path.name.startswith("."))
    paths = sorted(path for path in named if path.is_file())
    return {path.name: path.read_bytes().decode(errors="replace") for path in paths}


def _leftover(name: str) -> Stale:
    return Stale(path=RENDERED / name, state=State.LEFTOVER, snippet="", do="invoke render")


def _snippet(before: str, after: str) -> str:
    """Return the first lines that differ, as a unified difference from the file to what it should be."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "committed", "wanted", lineterm="", n=1)
    shown = [line for _, line in zip(range(_SNIPPET), lines, strict=False)]
    return "\n".join([*shown, "…"] if len(shown) == _SNIPPET else shown)
