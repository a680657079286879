"""Where compiled test tools are kept between runs, and the lock that lets workers share them.

`.cache/` of the repository, or the folder named by SQLENRICH_TEST_CACHE. What lies there is
native code that gets loaded unchecked: the folder must be writable by its owner alone.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

ENVIRONMENT = "SQLENRICH_TEST_CACHE"
REPOSITORY = Path(__file__).resolve().parents[2]


def cache_dir() -> Path:
    """The cache folder, made if it is missing."""
    path = Path(os.environ.get(ENVIRONMENT) or REPOSITORY / ".cache")
    path.mkdir(parents=True, exist_ok=True)
    return path


def cached_file(name: str, build: Callable[[Path], None]) -> Path:
    """The cached file `name`, built once: `build` writes it at the path it is given.

    Other processes that ask at the same time wait instead of building again, and a file that is
    only half written is never seen under its final name.
    """
    target = cache_dir() / name
    if target.exists():
        return target
    with _lock(target.with_name(name + ".lock")):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=name + ".") as scratch:
                # The name is kept, since some builders choose the format by the suffix.
                made = Path(scratch) / name
                build(made)
                made.replace(target)
    return target


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        try:
            import fcntl
        except ImportError:  # not on Windows: workers may then build the same file twice, harmlessly
            yield
            return
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def scratch_dir(prefix: str) -> Path:
    """A new temporary folder that is removed when the process ends."""
    path = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path
