"""Patches from a place where foreign code may have run: taken if they change pins and what is made of them alone."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ascend_images.errors import BadInput, MissingTool
from ascend_images.files import read_regular
from ascend_images.project_change import is_concerned
from ascend_images.project_git import complaint, git, require_repository

#: A file that is neither a program nor a link (gitformat-index, "mode").
_PLAIN = "100644"
#: No hook of a tree is run that nobody has looked at.
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
_WANTED = "changes of versions.toml, versions.lock, locks and rendered files, none of them a link or a program"


def take(root: Path, folder: Path) -> str:
    """Commit the patches of a folder, each as it was, and return a line for each commit.

    They are applied to a tree beside the project, and looked at there: while anything of them is not allowed, nothing
    of them lies in the project, whose code this is. Raises BadInput for patches that do not apply, or change something
    else; MissingTool for what git cannot do.
    """
    patches = _patches(folder)
    require_repository(root)
    with _beside(root) as tree:
        applied = git(tree, *_NO_HOOKS, "am", "--quiet", *map(str, patches))
        if applied.returncode:
            raise BadInput(
                f"{patches[0].parent}: does not apply: {complaint(applied)}",
                wanted="patches of git format-patch, made on top of HEAD, and somebody who commits",
                do="make them anew",
            )
        commits = _asked(tree, "rev-list", "--reverse", f"{_head(root)}..HEAD").split()
        refused = [text for one in commits for text in _refused(root, tree, one)]
        if refused:
            raise BadInput("\n".join(dict.fromkeys(refused)), wanted=_WANTED, do=f"read the patches in {folder}")
        _asked(root, *_NO_HOOKS, "merge", "--quiet", "--ff-only", commits[-1])
    return "\n".join(f"taken: {_asked(root, 'show', '--no-patch', '--format=%h %s', one).strip()}" for one in commits)


def _patches(folder: Path) -> list[Path]:
    found = [path.resolve() for path in sorted(folder.glob("*.patch"))]
    if not found:
        raise BadInput(f"{folder}: no patch is there", wanted="a folder of *.patch", do="git format-patch origin/main")
    for path in found:
        try:
            read_regular(path)
        except OSError as error:
            raise BadInput(f"{path}: cannot be read: {error.strerror or error}", wanted="a file") from None
    return found


@contextmanager
def _beside(root: Path) -> Iterator[Path]:
    """Give a checkout of HEAD beside the project's own; it goes when the block ends."""
    (root / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="take-", dir=root / "build") as name:
        tree = Path(name) / "tree"
        try:
            _asked(root, *_NO_HOOKS, "worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
            yield tree
        finally:
            git(root, "worktree", "remove", "--force", str(tree))


def _refused(root: Path, tree: Path, commit: str) -> Iterator[str]:
    """Yield what a commit changes that it may not, by what git keeps and not by what the patch says."""
    below = _asked(root, "rev-parse", "--show-prefix").strip()
    # Without renames: each path on either side is one line of its own.
    words = _asked(tree, "diff-tree", "-r", "-z", "--no-commit-id", "--no-renames", commit).split("\0")
    for entry, path in zip(words[::2], words[1::2], strict=False):
        mode = entry.split()[1]
        if not (path.startswith(below) and is_concerned(Path(path.removeprefix(below)))):
            yield f"{path} is changed"
        elif mode != _PLAIN:
            yield f"{path} is removed" if mode == "000000" else f"{path} is no plain file: mode {mode}"


def _head(root: Path) -> str:
    return _asked(root, "rev-parse", "--verify", "HEAD^{commit}").strip()


def _asked(root: Path, *words: str) -> str:
    done = git(root, *words)
    if done.returncode:
        raise MissingTool(
            f"git refused: {complaint(done)}", wanted="the patches on top of HEAD; nothing was taken", do="git status"
        )
    return done.stdout
