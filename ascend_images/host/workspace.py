"""The workspace: one folder of the host for models and caches, which outlives containers."""

import os
import shlex
import stat
from collections.abc import Collection
from pathlib import Path

from ascend_images.errors import BadInput
from ascend_images.host.request import Mount

#: Where it lies in the container; the stacks' MODELSCOPE_CACHE is below it.
TARGET = "/mnt/workspace"

#: Set in images of any kind, since an image of another project keeps its caches in a home directory.
ENVIRONMENT = {
    "MODELSCOPE_CACHE": f"{TARGET}/.cache/modelscope/hub",
    "HF_HOME": f"{TARGET}/.cache/huggingface",
    "XDG_CACHE_HOME": f"{TARGET}/.cache",
}


def workspace_mount(folder: str) -> Mount:
    """Return the mount of a workspace."""
    return Mount(folder, TARGET, read_only=False, kind="dir")


def require_writable(folder: str, uid: int, groups: Collection[int]) -> None:
    """Raise BadInput unless a user of the container may write in a folder of this machine, by its permission bits.

    The owner of a folder that is there is left alone, whoever may use it besides: another folder is advised.
    """
    path, word = Path(folder), shlex.quote(folder)
    if not path.exists():
        make = f"mkdir -p {word}" if uid in (0, os.geteuid()) else f"sudo install -d -o {uid} {word}"
        raise BadInput(f"--workspace {folder}: no such folder", wanted=f"a folder of uid {uid}", do=make)
    if not path.is_dir():
        raise BadInput(f"--workspace {folder}: that is no folder", wanted="a folder", do="--workspace FOLDER")
    found = path.stat()
    if uid == 0:
        return
    shift = 6 if found.st_uid == uid else 3 if found.st_gid in groups else 0
    if (found.st_mode >> shift) & 0o3 != 0o3:
        raise BadInput(
            f"--workspace {folder}: {stat.filemode(found.st_mode)} {found.st_uid} {found.st_gid}: "
            f"uid {uid} may not write there",
            wanted=f"a folder that uid {uid} may write in, for caches; models may be in one that it only reads",
            do=f"--workspace OTHER_FOLDER --mount {word}:/models:ro",
        )
