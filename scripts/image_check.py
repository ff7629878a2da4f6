#!/usr/bin/env python3
"""Asks an image whether it is what its pins say; lies in every image as /opt/ascend-images/check.py.

    python3 /opt/ascend-images/check.py

Nothing but Python 3.9 and its standard library is needed, and nothing in the image is changed. It works in two steps:

1. `gather` looks at the image and writes down facts, judging nothing: the environment, installed distributions, git
   checkouts, version files, what the entry points do when they are imported.
2. Every check is a question to those facts, to `image.json` (all pins, resolved) and to `lock.txt` (the locked
   packages). A check answers `pass`, `fail`, `unknown` (it could not be told) or `not run` (and why).

One cause gives one finding: a check that hangs on what another one found says `not run: because of …`.
Exit codes: 0 nothing failed, 2 wrong use, 5 at least one check failed.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# In an image the package lies beside this file, in the repository inside the library.
sys.path.insert(0, str(HERE if (HERE / "inside").is_dir() else HERE.parent / "ascend_images"))
sys.dont_write_bytecode = True

from inside.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
