"""Writing files so that nothing half-written is ever left behind."""

import os
import tempfile
from pathlib import Path


def write_atomic(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write `content` to `path` by way of a temporary file beside it and a rename; raises OSError."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
