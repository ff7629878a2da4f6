"""Stand-in checkouts: one commit that is the same everywhere, and the traps of the real projects."""

import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ascend_images.pins.lockfile import Conflict, LockedPackage
from ascend_images.pins.variant import Checkout, Variant
from ascend_images.sandbox.checkouts import checkout_context, head, source_requires, source_tree
from ascend_images.sandbox.tree import File, Tree

NUMPY = LockedPackage("numpy", "1.26.4")
VARIANTS = ["a2", "a3-cann8.5", "a2-verl-qwen3.5", "a2-verl", "310p"]


def source(variant: Variant, name: str) -> Checkout:
    (found,) = (source for source in variant.sources if source.name == name)
    return found


def text(tree: Tree, path: str) -> str:
    entry = tree[path]
    assert isinstance(entry, File)
    return entry.content.decode()


@pytest.mark.parametrize("name", VARIANTS)
def test_every_source_has_the_module_and_the_checks_of_the_pins(name: str, variant: Callable[[str], Variant]) -> None:
    for wanted in variant(name).sources:
        tree = source_tree(wanted, ())
        own = [check for check in wanted.checks if check.split(".")[0] == wanted.module.split(".")[0]]
        for module in [wanted.module, *own]:
            parts = module.split(".")
            attribute = parts.pop() if parts[-1][0].isupper() else ""
            path = "/".join(parts)
            homes = [f"{root}{path}{end}" for root in ("", "src/") for end in (".py", "/__init__.py")]
            found = [home for home in homes if home in tree]
            assert found, f"{wanted.name}: {module}"
            assert attribute in text(tree, found[0])
        leftover = [path for path, entry in tree.items() if isinstance(entry, File) and b"@VERSION@" in entry.content]
        assert leftover == []


def test_vllm_lies_in_the_root_of_its_checkout(variant: Callable[[str], Variant]) -> None:
    assert "vllm/__init__.py" in source_tree(source(variant("a2"), "vllm"), ())


def test_megatron_is_a_namespace_package(variant: Callable[[str], Variant]) -> None:
    tree = source_tree(source(variant("a2"), "Megatron-LM"), ())
    assert "megatron/core/__init__.py" in tree
    assert "megatron/__init__.py" not in tree


def test_vllm_has_no_version_but_the_one_git_is_asked_for(variant: Callable[[str], Variant]) -> None:
    tree = source_tree(source(variant("a2"), "vllm"), ())
    assert "get_version" in text(tree, "setup.py")
    assert not any("0.23.0" in text(tree, path) for path in tree)


def test_a_source_that_is_not_known_lies_in_its_root_too() -> None:
    other = Checkout(
        name="Other-Thing",
        git="https://github.com/o/t",
        path="/o",
        module="other.thing",
        version="1.2",
        checks=("other.thing.run",),
    )
    tree = source_tree(other, ("numpy>=1",))
    project = tomllib.loads(text(tree, "pyproject.toml"))["project"]
    assert (project["name"], project["version"], project["dependencies"]) == ("Other-Thing", "1.2", ["numpy>=1"])
    assert {"other/thing/__init__.py", "other/thing/run/__init__.py"} <= set(tree)


def test_a_source_asks_for_what_the_lock_says_and_else_for_what_is_met(variant: Callable[[str], Variant]) -> None:
    mindspeed = source(variant("a2"), "MindSpeed")
    conflicts = [
        Conflict("MindSpeed", "0.16.0", "numpy<=1.26.0", "1.26.4", "a bug-fix release"),
        Conflict("vllm", "0.23.0", "numpy>=2", "1.26.4", "another's"),
    ]
    assert source_requires(mindspeed, [NUMPY], conflicts) == ("numpy", "numpy<=1.26.0")
    assert source_requires(mindspeed, [], []) == ()
    tree = source_tree(mindspeed, ("numpy", "numpy<=1.26.0"))
    assert text(tree, "requirements.txt").splitlines()[1:] == ["numpy", "numpy<=1.26.0"]


def test_lists_of_demands_are_read_by_toml_and_python_alike(variant: Callable[[str], Variant]) -> None:
    demand = 'triton==3.2.0; platform_machine == "x86_64"'
    tree = source_tree(source(variant("a2"), "flash-linear-attention"), (demand,))
    assert tomllib.loads(text(tree, "pyproject.toml"))["project"]["dependencies"] == [demand]
    assert json.dumps([demand]) in text(source_tree(source(variant("a2-verl"), "verl"), (demand,)), "setup.py")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.subprocess
class TestRepositories:
    """What git says of a stand-in checkout."""

    def test_the_commit_depends_on_the_files_alone(
        self, variant: Callable[[str], Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        swift = source(variant("a2"), "ms-swift")
        first = checkout_context(swift, [NUMPY], [])
        monkeypatch.setenv("ASCEND_IMAGES_STATE", str(tmp_path / "elsewhere"))
        monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
        second = checkout_context(swift, [NUMPY], [])
        assert first != second
        assert head(first) == head(second)
        assert head(checkout_context(msgspec.structs.replace(swift, version="9.9.9"), [NUMPY], [])) != head(first)

    def test_the_checkout_is_clean_at_one_commit_of_the_real_origin(self, variant: Callable[[str], Variant]) -> None:
        folder = checkout_context(source(variant("a2"), "vllm-ascend"), [NUMPY], [])
        assert git(folder, "status", "--porcelain") == ""
        assert git(folder, "rev-list", "--count", "HEAD") == "1"
        assert git(folder, "tag") == ""
        assert git(folder, "remote", "get-url", "origin") == "https://github.com/vllm-project/vllm-ascend"

    def test_a_submodule_is_checked_out_at_the_recorded_commit(self, variant: Callable[[str], Variant]) -> None:
        folder = checkout_context(source(variant("a2-verl"), "verl"), [NUMPY], [])
        recorded = git(folder, "ls-tree", "HEAD", "recipe").split()
        assert (recorded[1], recorded[2]) == ("commit", head(folder / "recipe"))
        assert (folder / "recipe/.git").read_text() == "gitdir: ../.git/modules/recipe\n"
        assert git(folder, "status", "--porcelain") == ""

    def test_without_submodules_none_is_there(self, variant: Callable[[str], Variant]) -> None:
        folder = checkout_context(source(variant("a2-verl-qwen3.5"), "verl"), [NUMPY], [])
        assert not (folder / "recipe").exists()

    def test_a_file_of_lfs_is_its_pointer(self, variant: Callable[[str], Variant]) -> None:
        folder = checkout_context(source(variant("a2"), "ms-swift"), [NUMPY], [])
        assert (folder / "asset/banner.png").read_text().startswith("version https://git-lfs.github.com/spec/v1\n")
