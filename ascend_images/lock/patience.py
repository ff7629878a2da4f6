"""Asking indexes: many things at once, and one thing no longer than there is patience for."""

import concurrent.futures
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from ascend_images.lock.release import IndexUnreachableError

_THREADS = 12

Key = TypeVar("Key")
Answer = TypeVar("Answer")


def within(seconds: float, ask: Callable[[], Answer]) -> Answer:
    """Return what `ask` returns, raise what it raises; TimeoutError where it takes too long, and is left to itself."""
    answer: concurrent.futures.Future[Answer] = concurrent.futures.Future()

    def fill() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # whatever it is, it is for whoever asked
            answer.set_exception(error)

    threading.Thread(target=fill, daemon=True).start()
    return answer.result(seconds)


def in_parallel(ask: Callable[[Key], Answer], keys: Iterable[Key]) -> dict[Key, Answer | IndexUnreachableError]:
    """Ask many things at once; an index that gave no answer is an entry of the result, any other error is raised."""
    ordered = list(dict.fromkeys(keys))

    def one(key: Key) -> Answer | IndexUnreachableError:
        try:
            return ask(key)
        except IndexUnreachableError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(ordered, pool.map(one, ordered), strict=True))
