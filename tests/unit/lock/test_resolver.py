"""uv is asked one question in files of its own, and its answers and failures are told apart."""

import os
import subprocess
import tomllib
from datetime import date
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ascend_images.errors import LookupIncomplete, MissingTool
from ascend_images.lock import resolver
from ascend_images.lock.metadata import Metadata
from ascend_images.lock.placeholder import Placeholder, write_wheel
from ascend_images.lock.resolver import Question, ResolverFailedError, UnresolvableError, Uv
from ascend_images.lock.target import Target
from ascend_images.pins.platform import Arch

ARM = Target(Arch.ARM64, "3.12")


def requirements(*lines: str) -> tuple[Requirement, ...]:
    return tuple(map(Requirement, lines))


def write(question: Question, folder: Path) -> list[str]:
    return resolver._write_question(question, folder)


def test_the_question_names_python_and_platform_and_never_downloads_a_python(tmp_path: Path) -> None:
    command = write(Question(target=ARM), tmp_path)
    assert command[command.index("--python-version") + 1] == "3.12"
    assert command[command.index("--python-platform") + 1] == "aarch64-manylinux_2_28"
    assert "--no-python-downloads" in command


def test_bound_packages_come_from_their_index_and_no_other_package_does(tmp_path: Path) -> None:
    bound = {"torch": ("cpu", "https://cpu.example/whl")}
    write(Question(target=ARM, pins=requirements("torch==2.9.0", "six"), bound=bound), tmp_path)
    document = tomllib.loads((tmp_path / "project/pyproject.toml").read_text())
    assert document["project"]["dependencies"] == ["torch==2.9.0", "six"]
    assert document["tool"]["uv"]["sources"] == {"torch": {"index": "cpu"}}
    assert document["tool"]["uv"]["index"] == [
        {"name": "cpu", "url": "https://cpu.example/whl", "explicit": True, "exclude-newer": False}
    ]


def test_changed_metadata_exclusions_constraints_and_preferences_are_files_of_their_own(tmp_path: Path) -> None:
    question = Question(
        target=ARM,
        metadata={("vllm", "0.18.0"): Metadata(requirements("numpy"), extras=("audio",))},
        exclude=frozenset({"triton", "opencv-python"}),
        constrained={"six": "1.0", "attrs": "24.2.0"},
        preferred={"regex": "2024.1"},
    )
    write(question, tmp_path)
    assert tomllib.loads((tmp_path / "uv.toml").read_text())["dependency-metadata"] == [
        {"name": "vllm", "version": "0.18.0", "requires-dist": ["numpy"], "provides-extra": ["audio"]}
    ]
    assert (tmp_path / "exclude.txt").read_text() == "opencv-python\ntriton\n"
    assert (tmp_path / "constraints.txt").read_text() == "attrs==24.2.0\nsix==1.0\n"
    assert (tmp_path / "out.txt").read_text() == "regex==2024.1\n"


def test_nothing_is_kept_from_an_earlier_answer_unless_asked(tmp_path: Path) -> None:
    write(Question(target=ARM), tmp_path)
    assert not (tmp_path / "out.txt").exists()


def test_an_answer_gives_versions_by_normalised_name_and_the_given_ones_too() -> None:
    text = "Ray==2.48.0\ntorch_npu==2.9.0.post2 ; python_version > '3'\nvllm @ file:///x/vllm-0.18.0.whl\n# note\n"
    found = resolver._parse(text, (Placeholder("vllm", "0.18.0+empty"),))
    assert found == {"ray": "2.48.0", "torch-npu": "2.9.0.post2", "vllm": "0.18.0+empty"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x No solution found when resolving dependencies:\n because", UnresolvableError),
        ("error: Failed to fetch: `https://index.example/six/`\n dns error", LookupIncomplete),
        ("error: Failed to build `oss2==2.19.1`", ResolverFailedError),
    ],
)
def test_failures_are_told_apart(text: str, kind: type[Exception]) -> None:
    assert type(resolver._failure(text, Path("/tmp/x"))) is kind


def test_an_explanation_does_not_speak_of_temporary_files() -> None:
    error = resolver._failure("No solution found\n file:///tmp/x/wheels/vllm.whl", Path("/tmp/x"))
    assert "/tmp/x" not in str(error)


def test_other_settings_of_uv_do_not_reach_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: dict[str, str] = {}

    def run(command: list[str], **fields: object) -> subprocess.CompletedProcess[str]:
        seen.update(fields["env"])  # type: ignore[call-overload]
        (Path(str(fields["cwd"])) / "out.txt").write_text("")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setenv("UV_OVERRIDE", "/somewhere/overrides.txt")
    monkeypatch.setenv("UV_PRERELEASE", "allow")
    monkeypatch.setenv("UV_CACHE_DIR", "/somewhere/cache")
    monkeypatch.setattr(resolver.subprocess, "run", run)
    Uv("https://index.example/simple").resolve(Question(target=ARM))
    assert {name for name in seen if name.startswith("UV_")} == {"UV_CACHE_DIR", "UV_DEFAULT_INDEX"}
    assert seen["UV_DEFAULT_INDEX"] == "https://index.example/simple"


def test_a_day_and_no_network_are_told_to_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def run(command: list[str], **fields: object) -> subprocess.CompletedProcess[str]:
        seen.extend(command)
        (Path(str(fields["cwd"])) / "out.txt").write_text("")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(resolver.subprocess, "run", run)
    Uv(as_of=date(2026, 2, 28), offline=True).resolve(Question(target=ARM))
    assert seen[seen.index("--exclude-newer") + 1] == "2026-03-01T00:00:00Z"
    assert "--offline" in seen


def test_without_uv_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise FileNotFoundError

    monkeypatch.setattr("uv.find_uv_bin", missing)
    monkeypatch.setattr(resolver.shutil, "which", lambda name: None)
    with pytest.raises(MissingTool, match="uv is not installed"):
        resolver.find_uv()


def test_a_resolver_that_never_ends_is_an_answer_that_could_not_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("uv", 1)

    monkeypatch.setattr(resolver.subprocess, "run", run)
    with pytest.raises(LookupIncomplete, match="no answer within"):
        Uv().resolve(Question(target=ARM))


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    for name, version, *requires in (
        ("numpy", "1.26.4"),
        ("numpy", "2.1.0"),
        ("scipy", "1.13.1", "numpy<2.3"),
        ("opencv", "4.13.0", "numpy>=2"),
        ("triton", "3.5.0"),
        ("liger", "0.8", "triton>=2"),
    ):
        write_wheel(Placeholder(name, version, requirements(*requires)), folder)
    return folder


def uv(wheels: Path) -> Uv:
    return Uv(arguments=("--no-index", "--find-links", str(wheels), "--offline"))


@pytest.mark.subprocess
def test_uv_finds_the_newest_set_and_keeps_to_what_is_held(wheels: Path) -> None:
    question = Question(target=ARM, pins=requirements("scipy"))
    assert uv(wheels).resolve(question) == {"scipy": "1.13.1", "numpy": "2.1.0"}
    for held in ("constrained", "preferred"):
        fields = {held: {"numpy": "1.26.4"}}
        question = Question(target=ARM, pins=requirements("scipy"), **fields)  # type: ignore[arg-type]
        assert uv(wheels).resolve(question)["numpy"] == "1.26.4"


@pytest.mark.subprocess
def test_uv_takes_what_is_given_and_leaves_out_what_is_excluded(wheels: Path) -> None:
    question = Question(
        target=ARM,
        pins=requirements("liger==0.8"),
        given=(Placeholder("vllm", "0.18.0+empty", requirements("numpy<2")),),
        exclude=frozenset({"triton"}),
    )
    assert uv(wheels).resolve(question) == {"liger": "0.8", "numpy": "1.26.4", "vllm": "0.18.0+empty"}


@pytest.mark.subprocess
def test_uv_believes_changed_metadata(wheels: Path) -> None:
    pins = requirements("opencv==4.13.0", "numpy==1.26.4")
    with pytest.raises(UnresolvableError, match=r"opencv depend on numpy>=2"):
        uv(wheels).resolve(Question(target=ARM, pins=pins))
    lifted = {("opencv", "4.13.0"): Metadata(requirements("numpy"))}
    assert uv(wheels).resolve(Question(target=ARM, pins=pins, metadata=lifted))["numpy"] == "1.26.4"


@pytest.mark.subprocess
def test_an_index_that_cannot_be_reached_is_no_contradiction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    # Nothing listens on port 9 of this machine.
    lost = Uv("http://127.0.0.1:9/simple", ("--cache-dir", str(tmp_path / "cache")))
    with pytest.raises(LookupIncomplete, match="a package index could not be asked"):
        lost.resolve(Question(target=ARM, pins=requirements("six")))


@pytest.mark.subprocess
def test_a_contradiction_deep_in_two_hundred_packages_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    folder.mkdir()
    for number in range(200):
        for version in ("1.0", "1.1"):
            following = requirements(f"p{number + 1}>=1") if number < 199 else requirements("end<1")
            write_wheel(Placeholder(f"p{number}", version, following), folder)
    write_wheel(Placeholder("end", "1.0"), folder)
    write_wheel(Placeholder("end", "0.9"), folder)
    question = Question(target=ARM, pins=requirements("p0==1.1", "end==1.0"))
    with pytest.raises(UnresolvableError):
        uv(folder).resolve(question)


def test_the_environment_of_the_tests_holds_the_pinned_uv() -> None:
    assert os.access(resolver.find_uv(), os.X_OK)
