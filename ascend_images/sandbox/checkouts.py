"""Stand-in git checkouts of a variant's sources: real names, layouts, versions and traps, one commit each.

The commit is a stand-in's own: it depends on nothing but the files, so that it is the same on every machine.
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from ascend_images.errors import BuildFailed, MissingTool
from ascend_images.pins.lockfile import Conflict, LockedPackage
from ascend_images.pins.platform import host_arch
from ascend_images.pins.variant import Checkout
from ascend_images.sandbox.data import data_table, data_tree
from ascend_images.sandbox.store import code_digest, digest, stored
from ascend_images.sandbox.tree import TIMESTAMP, File, Tree, set_times, text_file, write_tree
from ascend_images.sandbox.wheels import add_check, met

_OTHER = "_other"
_SOME_VERSION = "0.0.0"
_AUTHOR = {"NAME": "Stand-in", "EMAIL": "stand-in@example.invalid", "DATE": f"{TIMESTAMP} +0000"}


def checkout_context(source: Checkout, packages: Sequence[LockedPackage], conflicts: Sequence[Conflict]) -> Path:
    """Return a folder with a checkout that stands in for `source`, as a fetch of its commit would leave it.

    It asks for what `conflicts` says that the source asks for, and else only for what `packages` meet.
    """
    requires = source_requires(source, packages, conflicts)
    key = digest(
        source.name,
        source.git,
        source.version,
        source.module,
        source.distribution,
        source.submodules,
        source.checks,
        requires,
        code_digest(
            "checkouts.py", "data.py", "tree.py", "wheels.py", "files/sources", "files/sources.toml", "files/submodules"
        ),
    )

    def make(folder: Path) -> None:
        _commit(folder, source, requires)
        set_times(folder)

    return stored("sources", re.sub(r"[^a-z0-9.-]", "-", source.name.lower()), key, make)


def head(folder: Path) -> str:
    """Return the commit that a checkout is at."""
    return _git(folder, "rev-parse", "HEAD")


def source_requires(
    source: Checkout, packages: Sequence[LockedPackage], conflicts: Sequence[Conflict]
) -> tuple[str, ...]:
    """Return what the stand-in of a source asks for."""
    names = {canonicalize_name(source.name), _distribution(source)}
    versions = {package.name: package.version for package in packages}
    asked = met(data_table("sources.toml")["requires"].get(_distribution(source), ()), versions)
    return (*asked, *(conflict.demand for conflict in conflicts if canonicalize_name(conflict.whose) in names))


def source_tree(source: Checkout, requires: Sequence[str]) -> Tree:
    """Return the files of a source's stand-in, its submodules left out."""
    name = _distribution(source)
    values = {
        "NAME": source.name,
        "DISTRIBUTION": source.distribution or source.name,
        # A source whose pins name no version has one of its own, which nobody here knows.
        "VERSION": source.version or _SOME_VERSION,
        "TOP": source.module.partition(".")[0],
        "LINES": "\n".join(requires),
        "REQUIRES": json.dumps(list(requires)),
    }
    # What is compiled, is compiled in the image: no file of a checkout depends on the architecture.
    tree = data_tree(f"sources/{name}", values, host_arch()) or _other_tree(source, values)
    root = data_table("sources.toml")["package_root"].get(name, "")
    prefix = f"{root}/" if root else ""
    packages = {path.removeprefix(prefix): entry for path, entry in tree.items() if path.startswith(prefix)}
    for check in source.checks:
        if check.split(".")[0] == source.module.partition(".")[0]:
            add_check(packages, check)
    return {**tree, **{f"{prefix}{path}": entry for path, entry in packages.items()}}


def _other_tree(source: Checkout, values: Mapping[str, str]) -> Tree:
    """Return a checkout for a source that nothing is known of: its module in the root, a static pyproject.toml."""
    tree = data_tree(f"sources/{_OTHER}", values, host_arch())
    module = tree.pop("module")
    return {**tree, f"{source.module.replace('.', '/')}/__init__.py": module}


def _distribution(source: Checkout) -> str:
    return canonicalize_name(source.distribution or source.name)


def _commit(folder: Path, source: Checkout, requires: Sequence[str]) -> None:
    """Make the checkout in `folder`: the files, their submodules, and one commit that `origin` would have."""
    tree = source_tree(source, requires)
    submodules = data_table("sources.toml")["submodules"].get(_distribution(source), {}) if source.submodules else {}
    if submodules:
        entries = (f'[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n' for path, url in submodules.items())
        tree[".gitmodules"] = text_file("".join(entries))
    write_tree(tree, folder)
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "remote", "add", "origin", source.git or f"https://example.invalid/{source.name}")
    for path, url in submodules.items():
        _add_submodule(folder, _distribution(source), path, url)
    _git(folder, "add", "--all")
    _git(folder, "commit", "-q", "-m", f"Stand-in for {source.name} {source.version}")
    _git(folder, "checkout", "-q", "--detach")


def _add_submodule(folder: Path, name: str, path: str, url: str) -> None:
    """Put a repository of its own at `path`, its git folder below the outer one's, as `git submodule update` does."""
    write_tree({**data_tree(f"submodules/{name}/{path}", {}, host_arch()), ".gitkeep": File(b"")}, folder / path)
    _git(folder / path, "init", "-q", "-b", "main")
    _git(folder / path, "remote", "add", "origin", url)
    _git(folder / path, "add", "--all")
    _git(folder / path, "commit", "-q", "-m", f"Stand-in for {path}")
    _git(folder, "update-index", "--add", "--cacheinfo", f"160000,{head(folder / path)},{path}")
    _git(folder, "submodule", "init", path)
    _git(folder, "submodule", "absorbgitdirs", path)


def _git(folder: Path, *arguments: str) -> str:
    """Run git without the settings of this machine or its user; raises MissingTool or BuildFailed."""
    with tempfile.TemporaryDirectory() as home:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _AUTHOR.items()},
            "HOME": home,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TEMPLATE_DIR": "",
        }
        command = ["git", "-C", str(folder), "-c", "core.fsync=none", "-c", "gc.auto=0", *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        except FileNotFoundError:
            raise MissingTool("no git command on PATH", wanted="git", do="apt-get install git") from None
    if done.returncode != 0:
        raise BuildFailed(f"a stand-in checkout could not be made: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()
