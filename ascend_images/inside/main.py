"""The command line of check.py."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Sequence

from .answers import Answer
from .asking import ask_all, report, table
from .checks import CHECKS
from .facts.gather import gather
from .lock import Lock, parse_lock
from .pep440 import pep440
from .tree import Tree
from .words import FOLDER, Facts


def write(path: str, text: str) -> None:
    """Write a file whole or not at all, with its directory."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=".report.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


class MisuseError(Exception):
    """Something that was typed, or a file that was named, cannot be used."""


def read_inputs(options: argparse.Namespace, tree: Tree) -> tuple[Facts, Lock | None]:
    """Read image.json and lock.txt: those of the image, or the ones that were named. Raises MisuseError."""
    texts = []
    for named, inner in ((options.image_json, f"{FOLDER}/image.json"), (options.lock, f"{FOLDER}/lock.txt")):
        if named:
            try:
                with open(named, encoding="utf-8") as stream:
                    texts.append(stream.read())
            except (OSError, UnicodeDecodeError) as error:
                raise MisuseError(f"{named} cannot be read: {error}") from None
        else:
            texts.append(tree.text(inner) or "")
    image: Facts = {}
    if texts[0]:
        try:
            image = json.loads(texts[0])
        except ValueError as error:
            raise MisuseError(f"{options.image_json or f'{FOLDER}/image.json'} is no JSON: {error}") from None
        if not isinstance(image, dict) or image.get("schema") != 1:
            raise MisuseError(f'{options.image_json or f"{FOLDER}/image.json"}: wanted an object with "schema": 1')
    try:
        lock = parse_lock(texts[1]) if texts[1] else None
    except ValueError as error:
        raise MisuseError(f"{options.lock or f'{FOLDER}/lock.txt'} is no lock: {error}") from None
    return image, lock


def options_of(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; ends the process with exit code 2 where it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="check.py", description="Ask an image whether it is what its pins say.", allow_abbrev=False
    )
    parser.add_argument("--image-json", metavar="FILE", help=f"pins of the image (default: {FOLDER}/image.json in it)")
    parser.add_argument("--lock", metavar="FILE", help=f"its locked packages (default: {FOLDER}/lock.txt in it)")
    parser.add_argument("--report", metavar="FILE", help="write results and facts there, as JSON")
    parser.add_argument(
        "--root", metavar="DIR", default="/", help="an unpacked image; its programs are not run (default: /)"
    )
    parser.add_argument(
        "--time-limit", metavar="SECONDS", type=float, default=300, help="for each import (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=int,
        default=min(4, os.cpu_count() or 1),
        help="imports at a time (default: processors, at most 4)",
    )
    parser.add_argument("--list", action="store_true", help="print every check, what it asks and why, and end")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Check an image; return the exit code."""
    options = options_of(words)
    if options.list:
        print("\n\n".join(f"{one.id}: {one.question}\n    {one.why}" for one in CHECKS))
        return 0
    sys.dont_write_bytecode = True
    tree = Tree(options.root)
    try:
        if not os.path.isdir(tree.root):
            raise MisuseError(f"{options.root} is not a directory")
        if options.jobs < 1 or options.time_limit <= 0:
            raise MisuseError("--jobs and --time-limit must be above 0")
        image, lock = read_inputs(options, tree)
    except MisuseError as error:
        print(f"check.py: {error}", file=sys.stderr)
        return 2
    own = os.path.dirname(os.path.abspath(options.report)) if options.report else ""
    facts = gather(tree, image, limit=options.time_limit, own=own, jobs=options.jobs)
    pep = pep440([tree.at(path) for path in facts["python"]["paths"]])
    answers = ask_all(facts, image, lock, pep)
    sys.stdout.write(table(image, answers))
    if options.report:
        try:
            write(options.report, report(image, facts, answers))
        except OSError as error:
            print(f"check.py: the report cannot be written: {error}", file=sys.stderr)
            return 2
    return 5 if any(said.answer is Answer.FAIL for list_of in answers.values() for said in list_of) else 0
