"""The command behind `nox -s verify --`: reads its words, then lets pytest ask every check."""

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

import pytest

from ascend_images import verifying
from ascend_images.errors import AscendImagesError
from ascend_images.verify.report import REPORT_FOLDER
from tests.stand_ins import stand_ins
from tests.verify.session import Session

ROOT = Path(__file__).parents[2]


def options_of(words: list[str]) -> argparse.Namespace:
    """Read the command line; ends the process with exit code 2 where it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="nox -s verify --",
        description="Ask an image, check by check, whether it is what its pins say and works on this host.",
        epilog="docs/verify.md tells of every check what it asks, why, and how it is mended.",
        allow_abbrev=False,
    )
    parser.add_argument("--variant", action="append", default=[], help="a variant of versions.toml; repeat it at will")
    parser.add_argument(
        "--image", action="append", default=[], metavar="REF", help="an image, held against what it says of itself, or "
        "with one --variant against its pins; repeat it at will"
    )  # fmt: skip
    parser.add_argument("--platform", default="", help="linux/amd64 or linux/arm64; what the engine has by default")
    parser.add_argument("--require-npu", action="store_true", help="fail where NPU checks cannot run")
    parser.add_argument("--devices", default="", metavar="0,1", help="N of /dev/davinciN, all, none; default: one card")
    parser.add_argument("--model", default="", metavar="DIR", help="a model from which vLLM generates a few tokens")
    parser.add_argument("--host", default="", metavar="ssh://USER@MACHINE", help="verify on another machine's engine")
    parser.add_argument("--time-limit", type=float, default=300.0, metavar="SECONDS", help="for one import")
    parser.add_argument("--report-dir", default="", metavar="DIR", help="where reports go (default: build/verify)")
    parser.add_argument("--host-root", default="/", metavar="DIR", help="where this host's devices and driver are seen")
    parser.add_argument("--sandbox", action="store_true", help="the image was built with --sandbox")
    return parser.parse_args(words)


def wishes_of(options: argparse.Namespace) -> verifying.Wishes:
    """Return what was typed, in the library's words."""
    return verifying.Wishes(
        root=ROOT,
        variants=tuple(options.variant),
        images=tuple(options.image),
        platform=options.platform,
        require_npu=options.require_npu,
        devices=options.devices,
        model=options.model,
        host=options.host,
        host_root=options.host_root,
        import_limit=options.time_limit,
        report_dir=Path(options.report_dir).absolute() if options.report_dir else ROOT / REPORT_FOLDER,
        contexts=stand_ins if options.sandbox else None,
    )


def end(number: int, _frame: FrameType | None) -> None:
    """End as after Ctrl-C, so that the container of the moment is removed."""
    raise KeyboardInterrupt(f"signal {number}")


def main(words: list[str]) -> int:
    """Verify; return the exit code: 1 where a check failed, else that of the error."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    try:
        wishes = wishes_of(options_of(words))
        targets = verifying.targets(wishes)
        session = Session(wishes, verifying.find_place(wishes), targets)
    except AscendImagesError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    quiet = ["-q", "--no-header", "--tb=no", "-rN", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
    code = pytest.main([*quiet, "--import-mode=importlib", str(Path(__file__).with_name("test_image.py"))], [session])
    return session.failure.exit_code if session.failure else int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
