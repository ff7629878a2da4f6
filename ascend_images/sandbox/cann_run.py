"""Stand-ins for CANN's .run packages: shell archives that install a stand-in release where the real one would lie."""

import hashlib
import posixpath
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from ascend_images.pins.platform import Arch
from ascend_images.pins.variant import RunFile, Variant
from ascend_images.sandbox import cann_tree
from ascend_images.sandbox.cann_tree import Part
from ascend_images.sandbox.data import data_text, filled
from ascend_images.sandbox.store import code_digest, digest, stored
from ascend_images.sandbox.tree import TIMESTAMP, set_times, tar_gz

_MARK = "__ARCHIVE__"


def run_context(variant: Variant, arch: Arch) -> Path:
    """Return a folder with the .run files that an overlay of this variant wants, under the names of the real ones."""
    runs = [run for run in variant.runs if run.arch is arch]
    key = digest(
        variant.cann,
        variant.chip.ops_package,
        [(run.part, run.file) for run in runs],
        code_digest("cann_run.py", "cann_tree.py", "elf.py", "tree.py", "files/cann"),
    )

    def make(folder: Path) -> None:
        for run in runs:
            path = folder / run.file
            path.write_bytes(run_file(run, variant.cann, variant.chip.ops_package))
            path.chmod(0o755)
        set_times(folder)

    return stored("cann-run", f"{variant.cann}-{variant.chip.cann_tag}-{arch.value}", key, make)


def run_file(run: RunFile, release: str, ops_package: str) -> bytes:
    """Return the package: a script, a line that says where it ends, and the archive that it unpacks into `/`."""
    cann_tree.check_release(release)
    package, part, checks = _PARTS[run.part](release, run.arch, ops_package)
    archive = tar_gz(part.tree)
    values = {
        "PACKAGE": package,
        "RELEASE": release,
        "FILE": run.file,
        "ARCH": run.arch.kernel,
        "SHA256": hashlib.sha256(archive).hexdigest(),
        "CHECKS": "\n".join(checks),
        "LINKS": "\n".join(_link_commands(part)),
        "MARK": _MARK,
    }
    return filled(data_text("cann/run.sh.in"), values).encode() + archive


def _toolkit(release: str, arch: Arch, _ops_package: str) -> tuple[str, Part, Sequence[str]]:
    return "Ascend-cann-toolkit", cann_tree.toolkit(release, arch), ()


def _operators(release: str, arch: Arch, ops_package: str) -> tuple[str, Part, Sequence[str]]:
    info = f"/{cann_tree.home(release)}/{arch.kernel}-linux/ascend_toolkit_install.info"
    checks = [f"[ -f {info} ] || fail 'install the toolkit of {release} first'"]
    return f"Ascend-cann-{ops_package}-ops", cann_tree.operators(release, arch, ops_package), checks


def _nnal(release: str, arch: Arch, _ops_package: str) -> tuple[str, Part, Sequence[str]]:
    home = f"/{cann_tree.home(release)}"
    complaint = f'fail "ASCEND_HOME_PATH is \\"${{ASCEND_HOME_PATH:-}}\\": source the set_env.sh of {home} first"'
    checks = [
        f'[ "${{ASCEND_HOME_PATH:-}}" = {home} ] || {complaint}',
    ]
    return "Ascend-cann-nnal", cann_tree.nnal(release, arch), checks


_PARTS: dict[str, Callable[[str, Arch, str], tuple[str, Part, Sequence[str]]]] = {
    "toolkit": _toolkit,
    "ops": _operators,
    "nnal": _nnal,
}


def _link_commands(part: Part) -> list[str]:
    """Return the commands that set a part's links; a link's own time is constant like that of every file."""
    commands = []
    for name, target in part.links.items():
        path = f"/{name}"
        commands += [
            shlex.join(["mkdir", "-p", posixpath.dirname(path)]),
            shlex.join(["ln", "-sfn", target, path]),
            shlex.join(["touch", "-hd", f"@{TIMESTAMP}", path]),
        ]
    return commands
