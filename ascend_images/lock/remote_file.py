"""A file on a server, read in parts."""

import io
from typing import Self

import requests

#: Bytes read from the end of a wheel at first: the directory of most wheels, METADATA before it, fits.
_TAIL = 64 * 1024


class RemoteFile(io.RawIOBase):
    """A file on a server that answers range requests, its end read first: enough to look into a wheel of 100 MB."""

    def __init__(
        self, session: requests.Session, url: str, timeout: tuple[float, float], size: int, tail: bytes
    ) -> None:
        self._session = session
        self._url = url
        self._timeout = timeout
        self._size = size
        self._blocks = [(size - len(tail), tail)]
        self._position = 0

    @classmethod
    def open(cls, session: requests.Session, url: str, timeout: tuple[float, float]) -> Self | None:
        """Return the file, None where the server sends only whole files; `timeout`, in seconds, is each request's."""
        answer = session.get(url, headers={"Range": f"bytes=-{_TAIL}"}, timeout=timeout, stream=True)
        answer.raise_for_status()
        size = answer.headers.get("Content-Range", "").rpartition("/")[2]
        if answer.status_code != 206 or not size.isdigit():
            answer.close()
            return None
        return cls(session, url, timeout, int(size), answer.content)

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def seekable(self) -> bool:
        """Say that its place can be set."""
        return True

    def tell(self) -> int:
        """Return the place, in bytes from its start."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the place, and return it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Return bytes from the place on. Raises ValueError where the server sends less, RequestException from it."""
        end = self._size if size is None or size < 0 else min(self._size, self._position + size)
        data = self._range(self._position, end)
        self._position = end
        return data

    def _range(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        for first, block in self._blocks:
            if first <= start and end <= first + len(block):
                return block[start - first : end - first]
        # What comes next is likely wanted too: zipfile reads a header, then what it heads.
        stop = min(self._size, max(end, start + _TAIL))
        answer = self._session.get(self._url, headers={"Range": f"bytes={start}-{stop - 1}"}, timeout=self._timeout)
        answer.raise_for_status()
        if answer.status_code != 206 or len(answer.content) < end - start:
            raise ValueError("the server cut a range request short")
        self._blocks.append((start, answer.content))
        return answer.content[: end - start]
