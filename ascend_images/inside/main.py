"""The command line of check.py."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

from .answers import Answer
from .asking import ask_all, facts_document, report, table
from .checks import CHECKS
from .facts.ahead import AHEAD, import_ahead
from .facts.gather import gather
from .facts.probes import Asked
from .image import read_image
from .lock import Lock, parse_lock
from .pep440 import pep440
from .process import end_all
from .tree import Tree, read_regular
from .words import FOLDER, Facts, device_numbers, json_object


def write(path: str, text: str) -> None:
    """Write a file whole or not at all, with its directory."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=".report.")
    try:
        # File names may hold bytes that are no UTF-8: in a report as \udcXX, which JSON reads.
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


class MisuseError(Exception):
    """Something that was typed, or a file that was named, cannot be used."""


def write_out(path: str, text: str) -> None:
    """Write a file that was named. Raises MisuseError."""
    try:
        write(path, text)
    except OSError as error:
        raise MisuseError(f"{path} cannot be written: {error}") from None


@dataclass(frozen=True)
class Inputs:
    """image.json and lock.txt: as texts of the image, and read, where others were named from those."""

    own_image: str
    own_lock: str
    image: Facts
    lock: Lock | None


def read_inputs(options: argparse.Namespace, tree: Tree) -> Inputs:
    """Read image.json and lock.txt: those of the image, or the ones that were named. Raises MisuseError.

    Where facts alone are wanted, what the image has may be unreadable: whoever judges them gets its text.
    """
    own = [tree.text(f"{FOLDER}/{name}") or "" for name in ("image.json", "lock.txt")]
    texts = [named_text(named) if named else text for named, text in zip((options.image_json, options.lock), own)]
    try:
        image = read_image(texts[0])
    except ValueError as error:
        if not options.facts or options.image_json:
            raise MisuseError(f"{options.image_json or f'{FOLDER}/image.json'}: {error}") from None
        image = {}
    try:
        lock = parse_lock(texts[1]) if texts[1] else None
    except ValueError as error:
        if not options.facts or options.lock:
            raise MisuseError(f"{options.lock or f'{FOLDER}/lock.txt'} is no lock: {error}") from None
        lock = None
    return Inputs(own[0], own[1], image, lock)


def named_text(path: str) -> str:
    """Return the text of a file that was named. Raises MisuseError."""
    try:
        return read_regular(path).decode("utf-8")
    except (OSError, ValueError) as error:
        raise MisuseError(f"{path} cannot be read: {error}") from None


def asked_devices(text: str) -> tuple[int, ...]:
    """Read --devices. Raises ArgumentTypeError."""
    numbers = device_numbers(text)
    if numbers is None:
        raise argparse.ArgumentTypeError(f"{text!r}: wanted numbers of /dev/davinciN, as in 0,1 or 0-7")
    return numbers


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
    parser.add_argument("--list", action="store_true", help="print every check: what it asks, why, how it is mended")
    parser.add_argument("--json", action="store_true", help="print the report, not the table")
    parser.add_argument("--facts", metavar="FILE", help="write facts there, as JSON, and judge nothing")
    build = parser.add_argument_group("building", "What a build asks while its sources come one after the other.")
    build.add_argument(
        "--import-ahead",
        nargs="+",
        metavar=("FILE", "NAME"),
        help="import names, and write to FILE which did and what each asked for; nothing else is asked",
    )
    build.add_argument(
        "--bytecode",
        metavar="DIR",
        help="keep there what imports compile (default: nowhere); it is used if it is there",
    )
    build.add_argument(
        "--absent", metavar="PATH", action="append", default=[], help="a checkout that comes later; repeat it"
    )
    build.add_argument(
        "--imported-ahead", metavar="FILE", help="import nothing again that by such a FILE imports, whatever came later"
    )
    npu = parser.add_argument_group("NPUs", "Each of these asks for the checks that compute on NPUs.")
    npu.add_argument("--npu", action="store_true", help="compute on the NPUs that are here")
    npu.add_argument(
        "--devices",
        metavar="0,1",
        type=asked_devices,
        default=(),
        help="those that must be here: N of /dev/davinciN",
    )
    npu.add_argument("--require-npu", action="store_true", help="fail where there is no NPU")
    npu.add_argument("--model", metavar="DIR", default="", help="a model from which vLLM generates a few tokens")
    npu.add_argument("--npu-device", metavar="NAME", default="npu", help="torch's name of them (default: npu)")
    npu.add_argument("--npu-backend", metavar="NAME", default="hccl", help="torch.distributed's (default: hccl)")
    return parser.parse_args(words)


def asked_of_npus(options: argparse.Namespace) -> Asked:
    """Return what the words ask of NPUs; naming some, or a model, asks for them too."""
    return Asked(
        npu=bool(options.npu or options.devices or options.require_npu or options.model),
        devices=options.devices,
        require=options.require_npu,
        model=options.model,
        device=options.npu_device,
        backend=options.npu_backend,
    )


def refuse_misuse(options: argparse.Namespace, tree: Tree) -> None:
    """Raise MisuseError for words that make no sense together or on this machine."""
    if not os.path.isdir(tree.root):
        raise MisuseError(f"{options.root} is not a directory")
    if options.jobs < 1 or options.time_limit <= 0:
        raise MisuseError("--jobs and --time-limit must be above 0")
    if options.facts and (options.report or options.json):
        raise MisuseError("--facts judges nothing, so there is no report: leave out --report and --json")
    if asked_of_npus(options).npu and not tree.live:
        raise MisuseError("an unpacked image computes nothing: leave out --root, or --npu and what goes with it")
    if (options.import_ahead or options.imported_ahead) and not tree.live:
        raise MisuseError("an unpacked image imports nothing: leave out --root, or --import-ahead and --imported-ahead")
    if options.absent and not options.import_ahead:
        raise MisuseError("--absent says what is not there for --import-ahead")
    if options.model and not os.path.isdir(options.model):
        raise MisuseError(f"--model {options.model}: no such directory here; mount it into the container")


def end_with_children(number: int, _frame: FrameType | None) -> None:
    """End this process and whatever it has started; as a container's first process it would else ignore the signal."""
    end_all()
    raise SystemExit(128 + number)


def main(words: Sequence[str] | None = None) -> int:
    """Check an image; return the exit code."""
    options = options_of(words)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if options.list:
        print("\n\n".join(f"{one.id}: {one.question}\n    {one.why}\n    mended: {one.mend}" for one in CHECKS))
        return 0
    sys.dont_write_bytecode = True
    tree = Tree(options.root)
    before = signal.signal(signal.SIGTERM, end_with_children)
    try:
        refuse_misuse(options, tree)
        if options.import_ahead:
            return write_imports(options)
        return check_image(options, tree, read_inputs(options, tree))
    except MisuseError as error:
        print(f"check.py: {error}", file=sys.stderr)
        return 2
    finally:
        signal.signal(signal.SIGTERM, before)


def bytecode_folder(options: argparse.Namespace) -> contextlib.AbstractContextManager[str]:
    """Return the folder for what imports compile: the one that was named, or one that is removed at the end.

    Raises MisuseError where it cannot be made.
    """
    if options.bytecode:
        try:
            # Python would make a folder of / that is missing in the current directory.
            os.makedirs(options.bytecode, exist_ok=True)
        except OSError as error:
            raise MisuseError(f"--bytecode {options.bytecode} cannot be made: {error}") from None
        return contextlib.nullcontext(os.path.abspath(options.bytecode))
    return tempfile.TemporaryDirectory(prefix="bytecode-")


def write_imports(options: argparse.Namespace) -> int:
    """Import the names that were given and those left before; write which did. Return the exit code.

    Raises MisuseError where a file cannot be read or written.
    """
    file, *names = options.import_ahead
    before = read_ahead(options.imported_ahead) if options.imported_ahead else {}
    with bytecode_folder(options) as bytecode:
        ahead = import_ahead(names, options.absent, before, bytecode, options.time_limit, options.jobs)
    write_out(file, json.dumps(ahead, indent=1, sort_keys=True) + "\n")
    print(f"imported: {' '.join(ahead['imports']) or 'nothing'}")
    if ahead["left"]:
        print(f"asked for a source that comes later: {' '.join(ahead['left'])}")
    return 0


def read_ahead(path: str) -> Facts:
    """Return what `--import-ahead` wrote. Raises MisuseError for anything else."""
    ahead = json_object(named_text(path))
    if any(not isinstance(ahead.get(key), kind) for key, kind in AHEAD.items()):
        raise MisuseError(f"{path} is not what --import-ahead writes")
    return ahead


def check_image(options: argparse.Namespace, tree: Tree, inputs: Inputs) -> int:
    """Gather the facts, and judge them unless facts alone are wanted; return the exit code.

    Raises MisuseError where a file cannot be read or written.
    """
    written = options.report or options.facts
    own = os.path.dirname(os.path.abspath(written)) if written else ""
    image, limit, jobs = inputs.image, options.time_limit, options.jobs
    asked = asked_of_npus(options)
    ahead = read_ahead(options.imported_ahead) if options.imported_ahead else None
    with bytecode_folder(options) as bytecode:
        facts = gather(tree, image, bytecode=bytecode, limit=limit, own=own, jobs=jobs, asked=asked, ahead=ahead)
    if options.facts:
        write_out(options.facts, facts_document(facts, inputs.own_image, inputs.own_lock))
        return 0
    answers = ask_all(facts, image, inputs.lock, pep440([tree.at(path) for path in facts["python"]["paths"]]))
    text = report(image, facts, answers)
    sys.stdout.write(text if options.json else table(image, answers))
    if options.report:
        write_out(options.report, text)
    return 5 if any(said.answer is Answer.FAIL for list_of in answers.values() for said in list_of) else 0
