"""Failures of a build that are the engine's own: nothing of the image is wrong, and the next try ends well."""

import re

from ascend_images.images.progress import FailedStep

#: How often a build is begun again after such a failure: all of its steps are cached by then.
RETRIES = 2

_EXPORT = "exporting to image"
# Two images that share layers are unpacked at once, and one takes a snapshot for there that goes with the other's lease
# (moby/buildkit issue 6521).
_LOST_SNAPSHOT = re.compile(r"failed to prepare extraction snapshot .* does not exist: not found")


def is_transient(failure: FailedStep | None) -> bool:
    """Say whether a build failed by the engine's loss of a snapshot while it unpacked a finished image."""
    return failure is not None and failure.step == _EXPORT and _LOST_SNAPSHOT.search(failure.error) is not None
