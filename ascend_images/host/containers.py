"""Files of a container by the SDK, whether it runs or not: taken out of it, and packed to be put into it."""

import io
import tarfile
from collections.abc import Mapping, Sequence

from docker.models.containers import Container


def file_in(container: Container, path: str, *, most: int, links: int = 0) -> bytes | None:
    """Return the content of a plain file of at most so many bytes; None for anything else that lies there.

    What an image has under a name may be anything. `links` says how many links are followed, each within the container.
    Raises docker's NotFound where there is nothing, and its other errors.
    """
    stream, status = container.get_archive(path)
    if status.get("linkTarget") and links:
        # The engine tells where a link leads in full.
        return file_in(container, str(status["linkTarget"]), most=most, links=links - 1)
    # Go's os.FileMode, in which the engine writes it, has what a file is in its high bits: none for a plain file.
    if int(status.get("mode", 0)) >> 12 or int(status.get("size", 0)) > most:
        return None
    try:
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
            file = archive.extractfile(archive.getmembers()[0])
            return file.read() if file is not None else None
    except (tarfile.TarError, IndexError, KeyError, ValueError):
        return None


def packed(folder: str, files: Mapping[str, bytes], *, writable: Sequence[str] = ()) -> bytes:
    """Return files as a tar archive that, unpacked at /, puts them into a folder; any user may write to `writable`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in writable:
            entry = tarfile.TarInfo(f"{folder.lstrip('/')}/{name}")
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777
            archive.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{folder.lstrip('/')}/{name}")
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
