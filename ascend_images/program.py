"""The self-check as files: what of this repository becomes /opt/ascend-images/check.py of an image."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_SCRIPT = _PACKAGE.parent / "scripts" / "image_check.py"
_INSIDE = _PACKAGE / "inside"


def program_files() -> dict[str, bytes]:
    """Return the files of check.py by their path in /opt/ascend-images: `check.py` and all of `inside/`."""
    modules = {f"inside/{path.relative_to(_INSIDE)}": path for path in sorted(_INSIDE.rglob("*.py"))}
    return {name: path.read_bytes() for name, path in {"check.py": _SCRIPT, **modules}.items()}


def write_program(folder: Path) -> None:
    """Write check.py and what it imports into a folder; what else lies there stays."""
    for name, content in program_files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
