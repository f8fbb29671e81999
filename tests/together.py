"""Threads that do the same at once."""

import threading
from collections.abc import Callable, Iterable
from typing import Any


def run_together(work: Callable[[Any], None], given: Iterable[Any] = range(4)) -> None:
    """Calls `work` with each of `given`, each in a thread of its own; what any raises is a failure."""
    problems: list[BaseException] = []

    def guarded(each: Any) -> None:
        try:
            work(each)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(each,)) for each in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
