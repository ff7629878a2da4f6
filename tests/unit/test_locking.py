"""Locking a selection: versions.lock and package locks together, nothing lost, all that is wrong told at the end."""

import dataclasses
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from ascend_images import generated, locking
from ascend_images.errors import BadInput, CheckFailed, LookupIncomplete
from ascend_images.lock.git import GitClient
from ascend_images.lock.means import Means
from ascend_images.lock.reach import MovedError, UnreachableError
from ascend_images.lock.versions import Hosts
from ascend_images.locking import Renewal
from ascend_images.pins.lockfile import LockedPackage, LockFile, file_name, input_parts, inputs_hash
from ascend_images.pins.model import Mirror
from ascend_images.pins.platform import Arch
from ascend_images.pins.questions import asked
from ascend_images.pins.variant import Variant
from ascend_images.pins.versions_lock import FILE, VersionsLock
from ascend_images.selection import Selection, select
from ascend_images.standing import Standing, standing
from tests.lock_kit import FakeIndex, means
from tests.remotes import FakeFiles, FakeGit, FakeImages, commit, digest

ROOT = Path(__file__).parents[2]
END = "-----END CERTIFICATE-----\n"
PUBLIC = Path(DEFAULT_CA_BUNDLE_PATH).read_text()
ONE, OTHER = (text + END for text in PUBLIC[PUBLIC.index("-----BEGIN") :].split(END)[:2])
VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "machine.pem").write_text(f"# the machine's\n{OTHER}")
    monkeypatch.setenv("GIT_SSL_CAINFO", str(tmp_path / "machine.pem"))


def test_every_program_is_told_of_the_machines_certificates_and_the_companys() -> None:
    before = dict(os.environ)
    with locking.trusting(f"# the company's\n{ONE}".encode()):
        (bundle,) = {os.environ[name] for name in VARIABLES}
        content = Path(bundle).read_text()
        ssl.create_default_context(cafile=bundle)
    assert content.index("# the machine's") < content.index("# the company's")
    assert PUBLIC in content
    assert dict(os.environ) == before
    assert not Path(bundle).exists()


def test_the_environment_comes_back_after_a_failure() -> None:
    before = dict(os.environ)
    with pytest.raises(ZeroDivisionError), locking.trusting(ONE.encode()):
        raise ZeroDivisionError
    assert dict(os.environ) == before


def test_a_bundle_that_holds_no_certificates_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "corp.pem").write_text("nonsense")
    with pytest.raises(BadInput, match="holds no certificates"):
        list(locking.lock(select(ROOT, ("a2",)), (), {}, ca_bundle=tmp_path / "corp.pem", say=print))


# --- versions.lock and package locks


class World:
    """A copy of the project, the hosts that it asks, and package locks made without an index."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git, self.images, self.files = FakeGit(), FakeImages(), FakeFiles()
        self.asked: list[dict[str, Any]] = []
        self.wrong: dict[str, Exception] = {}
        self.gaps: tuple[str, ...] = ()
        self.said: list[str] = []
        self.told: list[str] = []
        everything = asked(self.select(everything=True).variants)
        locked = VersionsLock.load(root / FILE)
        for one in everything.refs:
            known = locked.ref(one.repository, one.ref)
            self.git.tag(one.repository, one.ref, known.commit if known else commit("a"))
            if known and known.kind == "branch":
                self.git.branch(one.repository, one.ref, known.commit)
                del self.git.tags[one.repository][one.ref]
            self.git.loose.add(one.ref)
        for base in everything.bases:
            self.images.add(base.image, digest("1"), amd64=digest("2"), arm64=digest("3"))

    def select(self, *names: str, **more: Any) -> Selection:
        return select(self.root, names, to_be_locked=True, **more)

    def lock(self, *names: str, renewal: Renewal | None = None, **more: Any) -> list[str]:
        selection = self.select(*names, **{"everything": not names, **more})
        self.told = []
        for line in locking.lock(selection, (), {}, renewal=renewal, say=self.said.append):
            self.told.append(line)
        return self.told

    def usual_means(self, mirror: Mirror, say: Callable[[str], None], **_: Any) -> Means:
        return dataclasses.replace(means(FakeIndex(), self.root.parent, say), mirror=mirror)

    def hosts(self, means: Means) -> Hosts:
        return Hosts(git=self.git, images=self.images, files=self.files, way=means.way)

    def file(self, repository: str, _: str, path: str) -> str:
        """Files of commits: there, and asking for nothing, unless their host is down."""
        if repository in self.git.down:
            raise UnreachableError(f"{repository}: {self.git.down[repository]}")
        return '[project]\nname = "x"\n' if path.endswith(".toml") else ""

    @property
    def locked(self) -> VersionsLock:
        return VersionsLock.load(self.root / FILE)

    def lock_variant(self, variant: Variant, arches: Any, *_: Any, **more: Any) -> dict[Arch, LockFile]:
        self.asked.append({"variant": variant, "means": _[1], "ca": os.environ.get("SSL_CERT_FILE"), **more})
        if variant.name in self.wrong:
            raise self.wrong[variant.name]
        return {
            arch: LockFile(
                variant=variant.name,
                arch=arch,
                python=variant.python,
                inputs=inputs_hash(variant, arch),
                parts=input_parts(variant, arch),
                incomplete=self.gaps,
                packages=tuple(LockedPackage(gap.partition("==")[0], "1") for gap in self.gaps),
            )
            for arch in arches
        }


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    root = tmp_path / "project"
    for name in ("locks", "dockerfiles/rendered"):
        shutil.copytree(ROOT / name, root / name)
    for name in ("versions.toml", FILE):
        shutil.copy(ROOT / name, root)
    made = World(root)
    monkeypatch.setattr(locking, "lock_variant", made.lock_variant)
    monkeypatch.setattr(locking, "usual_means", made.usual_means)
    monkeypatch.setattr(locking, "usual_hosts", made.hosts)
    monkeypatch.setattr(GitClient, "file", made.file)
    return made


def source(variant: Variant, name: str) -> Any:
    return next(one for one in variant.sources if one.name == name)


VLLM = ("https://github.com/vllm-project/vllm", "v0.23.0")


def test_what_was_learned_stands_in_versions_lock_and_in_what_packages_are_locked_for(world: World) -> None:
    lines = world.lock("a2")
    entry = world.locked.ref(*VLLM)
    assert entry is not None
    assert entry.commit == commit("a")
    (asked_for,) = world.asked
    assert source(asked_for["variant"], "vllm").commit == commit("a")
    assert asked_for["variant"].base_digest == digest("1")
    assert any(line.startswith(f"{' '.join(VLLM)}: not known -> {commit('a')}") for line in lines)
    assert "a3: asks for what changed too: invoke lock --variant a3" in lines
    assert lines[-1] == "what changed stands in rendered files: invoke render"
    found = standing(select(world.root, ("a2",)))
    assert (found.stale, found.missing) == ((), ())
    assert world.lock("a2")[0].startswith("locks/"), "nothing is new"


def test_each_program_is_told_of_the_ca_while_it_is_asked_and_only_then(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "corp.pem").write_text(f"# the company's\n{ONE}")
    refs = world.git.refs
    seen: list[str] = []

    def look(repository: str) -> Any:
        seen.append(Path(os.environ["SSL_CERT_FILE"]).read_text())
        return refs(repository)

    monkeypatch.setattr(world.git, "refs", look)
    for _ in locking.lock(world.select("a2"), (), {}, ca_bundle=tmp_path / "corp.pem", say=print):
        assert "SSL_CERT_FILE" not in os.environ
    assert all("# the company's" in text for text in seen)
    assert seen
    assert world.asked[0]["ca"]


def test_a_tag_that_moved_is_told_at_the_end_and_packages_are_locked_for_the_old_commit(world: World) -> None:
    repository = "https://github.com/modelscope/ms-swift"
    old = world.locked.ref(repository, "v4.5.2")
    assert old is not None
    world.git.tag(repository, "v4.5.2", commit("b"))
    with pytest.raises(MovedError, match=r"v4\.5\.2: this tag was ff5128") as failure:
        world.lock("a2")
    assert failure.value.do.endswith("invoke lock --variant a2 --update ms-swift")
    assert source(world.asked[0]["variant"], "ms-swift").commit == old.commit
    assert any(line.startswith("locks/a2.amd64.txt") for line in world.told)
    world.lock("a2", renewal=Renewal(update=("ms-swift",)))
    assert source(world.asked[1]["variant"], "ms-swift").commit == commit("b")


def test_a_host_that_gives_no_answer_leaves_what_is_known_and_ends_in_six(world: World) -> None:
    world.git.down = {"https://github.com/modelscope/ms-swift": "no answer in time", VLLM[0]: "no answer in time"}
    before = world.locked
    with pytest.raises(LookupIncomplete) as failure:
        world.lock("a2", "a2-verl-qwen3.5")
    assert "modelscope/ms-swift v4.5.2: stays ff5128777dd3" in failure.value.found
    assert f"{' '.join(VLLM)}: not known" in failure.value.found
    assert failure.value.exit_code == 6
    assert world.locked.ref("https://github.com/modelscope/ms-swift", "v4.5.2") == before.ref(
        "https://github.com/modelscope/ms-swift", "v4.5.2"
    )
    assert world.asked == [], "both ask for files of a source of which nothing is known"
    assert "a2: its package locks stay as they are: see below" in world.told


def test_all_sources_that_cannot_be_read_are_told_at_once_with_one_command_for_them(
    world: World, tmp_path: Path
) -> None:
    world.git.down = dict.fromkeys((one.git for one in select(ROOT, ("a2",)).variants[0].sources), "no answer in time")
    with pytest.raises(LookupIncomplete) as failure:
        world.lock("a2", "a2-verl-qwen3.5")
    assert "a2: vllm, vllm-ascend, " in failure.value.found
    first, second = failure.value.do.split("\n          ")
    assert first == "the same again once they can be reached, or by way of a mirror: --mirror NAME"
    assert second.startswith(
        "the same again with checkouts on this machine: --source vllm=DIR --source vllm-ascend=DIR"
    )
    assert second.count("--source vllm=DIR") == 1, "of both variants one command"
    names = {one.name for one in select(ROOT, ("a2",)).variants[0].sources if one.requirements}
    assert all(f"--source {name}=DIR" in second for name in names)
    # By that command, and it says what is read there.
    folders = {name: checkout(tmp_path / name, name) for name in names}
    with pytest.raises(LookupIncomplete) as failure:
        for _ in locking.lock(world.select("a2"), (), folders, say=world.said.append):
            pass
    assert [one["variant"].name for one in world.asked] == ["a2"]
    assert f"{' '.join(VLLM)}: its commit is not known; what it asks for is read in its" in failure.value.found
    assert "--source" not in failure.value.do


def checkout(folder: Path, name: str) -> Path:
    module = next(one.module for one in select(ROOT, ("a2",)).variants[0].sources if one.name == name)
    folder.joinpath(*module.split(".")).mkdir(parents=True)
    (folder / ".git").mkdir()
    return folder


@pytest.mark.parametrize(("mirror", "advice"), [("cn", ""), ("", ", or by way of a mirror: --mirror NAME")])
def test_a_mirror_that_was_chosen_is_named_and_no_other_is_advised(world: World, mirror: str, advice: str) -> None:
    def failure() -> LookupIncomplete:
        with pytest.raises(LookupIncomplete) as caught:
            list(locking.lock(world.select("a2"), (), {}, mirror=mirror, say=print))
        return caught.value

    world.git.down = {VLLM[0]: "no answer in time"}
    lost = failure()
    address = VLLM[0].replace("https://github.com/", "https://gitclone.com/github.com/")
    by = f" (asked by way of mirror cn: {address})" if mirror else ""
    assert f"{' '.join(VLLM)}{by}: not known" in lost.found
    assert lost.do.splitlines()[0] == f"the same again once they can be reached{advice}"
    world.git.down = {}
    world.gaps = ("torch==1: index x could not be reached",)
    assert failure().do == f"the same again where those answer{advice}"


def test_whoever_explains_a_lock_knows_where_pins_stand(world: World) -> None:
    world.lock("a2", sets=("evalscope=1.11.0",))
    (asked_for,) = world.asked
    variant, places = asked_for["variant"], asked_for["means"].places
    assert places(variant, "packages", "setuptools") == "versions.toml stack.common.packages"
    assert places(variant, "packages", "numpy") == "versions.toml stack.ms-swift.packages"
    assert places(variant, "packages", "evalscope") == "--set"


def test_one_variant_that_cannot_be_locked_keeps_no_other_from_it(world: World) -> None:
    world.wrong = {"a2": BadInput("a2: a contradiction", wanted="one pin", do="change it")}
    with pytest.raises(BadInput, match="a2: a contradiction"):
        world.lock("a2", "a3")
    assert [one["variant"].name for one in world.asked] == ["a2", "a3"]
    assert LockFile.load(world.root / "locks" / "a3.amd64.txt").packages == ()
    assert LockFile.load(world.root / "locks" / "a2.amd64.txt").packages, "as it was"


def test_all_that_went_wrong_is_one_error_the_worst_of_its_kinds(world: World) -> None:
    world.wrong = {
        "a2": LookupIncomplete("a2: the index is gone", do="try again"),
        "a3": BadInput("a3: a contradiction", do="change it"),
    }
    with pytest.raises(BadInput) as failure:
        world.lock("a2", "a3")
    assert failure.value.found == "a3: a contradiction\na2: the index is gone"
    assert failure.value.do.split() == ["change", "it", "try", "again"]


def test_a_lock_without_hashes_is_written_and_ends_in_six(world: World) -> None:
    world.gaps = ("torch==1: index x could not be reached",)
    with pytest.raises(LookupIncomplete, match=r"locks/a2\.amd64\.txt and locks/a2\.arm64\.txt: incomplete"):
        world.lock("a2")
    assert LockFile.load(world.root / "locks" / "a2.amd64.txt").incomplete == world.gaps


@pytest.mark.parametrize(
    ("renewal", "kept"),
    [
        (Renewal(), True),
        (Renewal(update=("Numpy",)), False),
        (Renewal(fresh=True), False),
        (Renewal(as_of=date(2026, 1, 31)), False),
    ],
)
def test_locked_packages_are_kept_unless_they_are_to_be_learned_anew(
    world: World, renewal: Renewal, kept: bool
) -> None:
    world.lock("a2", renewal=renewal)
    assert ("numpy" in world.asked[0]["kept"].get(Arch.AMD64, {})) == kept


def test_a_name_of_nothing_is_no_update(world: World) -> None:
    with pytest.raises(BadInput, match='--update: unknown name "numpi"') as failure:
        world.lock("a2", renewal=Renewal(update=("numpi",)))
    assert failure.value.wanted == 'did you mean "numpy"?'
    assert world.git.asked == []


def test_refs_as_of_a_day_cannot_be_asked_and_that_is_said(world: World) -> None:
    world.lock("a2", renewal=Renewal(as_of=date(2026, 1, 31)))
    assert any("only packages are locked as of a day" in line for line in world.said)


def test_offline_nobody_is_asked_and_what_is_not_known_is_told(world: World) -> None:
    before = (world.root / FILE).read_bytes()
    with pytest.raises(LookupIncomplete, match="not asked"):
        world.lock("a2", renewal=Renewal(offline=True))
    assert world.git.asked == []
    assert (world.root / FILE).read_bytes() == before


def test_what_no_variant_asks_for_goes_when_all_are_locked(world: World) -> None:
    old = world.locked.git[0]
    gone = msgspec.structs.replace(old, ref="v0.0.1")
    (world.root / FILE).write_text(str(world.locked.having(gone)))
    world.lock("a2")
    assert world.locked.ref(*gone.key)
    for one in asked(world.select(everything=True).variants).runs:
        world.files.down[one.url] = "no answer in time"
    with pytest.raises(LookupIncomplete):
        world.lock()
    assert world.locked.ref(*gone.key) is None
    assert world.locked.ref(*old.key)


def test_changed_pins_have_a_versions_lock_of_their_own_beside_the_committed_one(world: World) -> None:
    before = (world.root / FILE).read_bytes()
    world.git.branch(VLLM[0], "main", commit("e"))
    sets = ("sources.vllm.ref=main", "sources.vllm.version=0.23.0")
    with pytest.raises(BadInput, match="vllm follows main, which moves"):
        select(world.root, ("a2",), sets=sets)
    world.lock("a2", sets=sets)
    assert (world.root / FILE).read_bytes() == before
    more = VersionsLock.load(world.root / "build" / FILE)
    assert (VLLM[0], "main") in [entry.key for entry in more.git]
    assert "https://gitcode.com/Ascend/MindSpeed" not in [entry.repository for entry in more.git], "it is the same"
    (variant,) = select(world.root, ("a2",), sets=sets).variants
    assert source(variant, "vllm").commit == commit("e")
    assert source(select(world.root, ("a2",)).variants[0], "vllm").commit == ""


def test_a_versions_lock_that_cannot_be_read_is_made_anew_where_all_of_it_is(world: World) -> None:
    (world.root / FILE).write_text("nonsense")
    with pytest.raises(BadInput, match=r"versions\.lock: not TOML") as failure:
        world.select(everything=True)
    assert failure.value.do == "make it again: invoke lock --all --fresh"
    assert world.select(everything=True, anew=True).locked == VersionsLock()


# --- does each lock answer its pins?


def changed_pins(world: World, before: str, after: str) -> None:
    path = world.root / "versions.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_the_committed_locks_answer_their_pins() -> None:
    standing(select(ROOT, everything=True)).require()


def test_a_ref_that_moved_is_named_by_every_check_of_the_lock(world: World) -> None:
    changed_pins(
        world,
        '[stack.ms-swift.sources.ms-swift]\ngit = "https://github.com/modelscope/ms-swift"\nref = "v4.5.2"',
        '[stack.ms-swift.sources.ms-swift]\ngit = "https://github.com/modelscope/ms-swift"\nref = "v4.6.0"',
    )
    selection = select(world.root, ("a2",))
    with pytest.raises(CheckFailed) as failure:
        standing(selection).require()
    first, *rest = failure.value.found.splitlines()
    assert first == "a2: sources.ms-swift.ref is v4.6.0, locked v4.5.2"
    assert rest == [
        f"a2: locks/a2.{arch}.txt was made from other pins: sources.ms-swift changed" for arch in ("amd64", "arm64")
    ]
    assert failure.value.do == "invoke lock --variant a2"
    generated.write(selection, everything=False)
    with pytest.raises(CheckFailed, match=r"sources\.ms-swift\.ref is v4\.6\.0, locked v4\.5\.2"):
        generated.require_current(selection, everything=False)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (Path.unlink, "a2: locks/a2.amd64.txt is not there"),
        (lambda path: path.write_text("nonsense\n"), "not a locked package: nonsense"),
        (
            lambda path: path.write_text(str(replace_inputs(LockFile.load(path)))),
            "was made from other pins: something that decides on packages changed",
        ),
    ],
)
def test_a_package_lock_that_is_none_of_these_pins_is_told(
    world: World, spoil: Callable[[Path], object], told: str
) -> None:
    spoil(world.root / "locks" / file_name("a2", Arch.AMD64))
    with pytest.raises(CheckFailed) as failure:
        standing(select(world.root, ("a2",))).require()
    assert told in failure.value.found
    assert "invoke lock --variant a2" in failure.value.do


def replace_inputs(lock: LockFile) -> LockFile:
    return msgspec.structs.replace(lock, inputs=f"sha256:{'0' * 64}")


def test_what_was_never_learned_is_told_and_no_fault() -> None:
    found = standing(select(ROOT, ("a2",)), (Arch.AMD64,))
    found.require()
    assert any("the base image is" in text and "not locked" in text for text in found.missing)
    assert found.missing[-1] == "packages without hashes: locks/a2.amd64.txt (4)"


def test_a_lock_that_was_made_from_another_commit_is_told_by_every_check_and_is_no_fault(world: World) -> None:
    notes = ("vllm-ascend read at 3cc6f648e5a4, pinned 5cb98caaadef", "vllm read at no commit, pinned v0.23.0")
    for arch in Arch:
        path = world.root / "locks" / file_name("a2", arch)
        path.write_text(str(msgspec.structs.replace(LockFile.load(path), elsewhere=notes[: 1 + (arch is Arch.ARM64)])))
    found = standing(select(world.root, ("a2",)))
    found.require()
    assert found.missing[-3:-1] == (
        f"what a source asks for at its pin: {notes[0]} (locks/a2.amd64.txt, locks/a2.arm64.txt)",
        f"what a source asks for at its pin: {notes[1]} (locks/a2.arm64.txt)",
    )


def test_a_checkout_of_another_project_is_refused_before_anything_is_asked(world: World, tmp_path: Path) -> None:
    (tmp_path / "other" / ".git").mkdir(parents=True)
    with pytest.raises(BadInput, match="a checkout of another project"):
        list(locking.lock(world.select("a2"), (), {"VLLM": tmp_path / "other"}, say=print))
    assert world.git.asked == []


def test_a_lock_of_another_variant_or_architecture_is_told_by_the_check(world: World) -> None:
    locks = world.root / "locks"
    shutil.copy(locks / file_name("a2", Arch.ARM64), locks / file_name("a2", Arch.AMD64))
    with pytest.raises(CheckFailed, match=r"a2\.amd64\.txt is the lock of a2 arm64, not of a2 amd64") as failure:
        standing(select(world.root, ("a2",))).require()
    assert failure.value.do == "invoke lock --variant a2"


@pytest.mark.parametrize(
    ("missing", "variants", "said"),
    [
        ((), 2, "the locks of 2 variants answer their pins"),
        (("x", "y"), 1, "the locks of 1 variant answer their pins, but for what is not locked (2 things, see above)"),
    ],
)
def test_what_the_check_says_in_the_end_is_true(missing: tuple[str, ...], variants: int, said: str) -> None:
    assert Standing(variants, (), missing).told() == said


@pytest.mark.subprocess
def test_two_locks_at_once_take_turns(tmp_path: Path) -> None:
    said: list[str] = []
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom ascend_images import locking\n"
        f"with locking.alone(Path({str(tmp_path)!r}), print):\n    print('held', flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"

        def say(text: str) -> None:
            said.append(text)
            other.communicate(b"\n")

        with locking.alone(tmp_path, say):
            pass
    assert said == [f"locks: waiting for another invoke lock or bump to end (process {other.pid})"]
