"""What indexes, git hosts and file servers answered, on disk for this user alone: it may speak of logins."""

from contextlib import suppress
from pathlib import Path

from ascend_images.files import write_atomic


def own_folder(path: Path) -> Path:
    """Return a folder that only its owner may enter (mode 0700), made where it is not there; raises OSError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    # One that an earlier version made, or a umask; what belongs to somebody else is theirs to close.
    if path.stat().st_mode & 0o077:
        with suppress(PermissionError):
            path.chmod(0o700)
    return path


def keep(path: Path, content: str | bytes) -> None:
    """Write a file that only its owner may read (mode 0600), in a folder like that; raises OSError."""
    own_folder(path.parent)
    write_atomic(path, content, mode=0o600)
