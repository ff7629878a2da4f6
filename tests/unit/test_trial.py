"""What newer packages would break where the files of some sources cannot be read: what is known of them counts."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from ascend_images.errors import BadInput, LookupIncomplete
from ascend_images.lock.demands import Demand
from ascend_images.lock.means import Means
from ascend_images.lock.newer import Subject
from ascend_images.lock.outdated import subjects
from ascend_images.lock.whatif import declared_demands
from ascend_images.pins.resolve import resolve_all
from ascend_images.pins.variant import Variant
from ascend_images.selection import PINS_FILE, select
from ascend_images.trial import Trial
from tests.lock_kit import Newest, real
from tests.outdated_kit import Listing
from tests.unit.test_updating import LOCK, PINS

#: As versions.toml has vLLM: what it is built with is written down, what it asks for at run time lies in its files.
WITH_BUILD = PINS.replace(
    'declares = ["six<2"]',
    'declares = ["six<2"]\nrequirements = ["requirements.txt"]\nbuild_requires = ["setuptools>=77.0.3,<81"]',
).replace('six = "1.0"', 'six = "1.0"\nsetuptools = "80.10.2"')
RELAX = """
[[stack.small.relax]]
whose = "{whose}"
demand = "{demand}"
reason = "x"
"""
#: What the files of sources say, for those that can be read.
FILES = {"vllm": ["six<2", "numpy<2"], "moving": ["numpy<1.26.5"]}

Make = Callable[..., Trial]


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make a trial of the stack `small`; the files of `lost` sources cannot be read."""
    index = Listing().add("numpy==1.26.4").add("numpy==1.26.5").add("opencv-python-headless==4.11.0.86")
    index.add("six==1.0").add("six==2.1").add("setuptools==80.10.2").add("setuptools==84.2.1")

    def make(lost: Sequence[str], text: str = WITH_BUILD, error: type[Exception] = LookupIncomplete) -> Trial:
        def read(variant: Variant, *_: Any) -> Mapping[str, tuple[Demand, ...]]:
            for source in variant.sources:
                if source.name in lost:
                    raise error(f"{source.name}: could not be read")
            return {
                source.name: tuple(Demand(source.name, Requirement(line), "its file") for line in FILES[source.name])
                for source in variant.sources
            }

        monkeypatch.setattr("ascend_images.trial.read_demands", read)
        (tmp_path / PINS_FILE).write_text(text)
        (tmp_path / "versions.lock").write_text(LOCK)
        means = Means(packages=index, resolver=Newest(index), cache=tmp_path / "cache")
        return Trial(selection=select(tmp_path, ["small"], allow_broken=True), means=means)

    return make


def subject(trial: Trial, name: str) -> Subject:
    return next(one for one in subjects(trial.selection.variants, lambda _: {}) if one.name == name)


def told(trial: Trial, name: str, version: str) -> list[str]:
    return [broken.message for broken in trial.breaks(subject(trial, name), version)]


@pytest.mark.parametrize("error", [LookupIncomplete, BadInput])
def test_what_versions_toml_says_of_a_source_counts_where_its_files_cannot_be_read(
    trial: Make, error: type[Exception]
) -> None:
    """As reported: setuptools 84 was recommended, though versions.toml itself says that vLLM builds with <81."""
    tried = trial(["vllm", "moving"], error=error)
    where = "versions.toml sources.vllm.build_requires"
    assert told(tried, "setuptools", "84.2.1") == [
        f"setuptools is pinned to 84.2.1; vllm 0.18.0 asks for setuptools>=77.0.3,<81 to be built ({where})"
    ]
    assert told(tried, "six", "2.1") == [
        "six is pinned to 2.1; vllm 0.18.0 asks for six<2 (versions.toml sources.vllm.declares)"
    ]
    assert told(tried, "numpy", "1.26.5") == [], "only a file says more of it"
    assert tried.unread == {"small": ("vllm", "moving")}


def test_one_source_that_cannot_be_read_takes_no_other_with_it(trial: Make) -> None:
    tried = trial(["vllm"])
    assert told(tried, "numpy", "1.26.5") == ["numpy is pinned to 1.26.5; moving asks for numpy<1.26.5 (its file)"]
    assert tried.unread == {"small": ("vllm",)}


def test_what_a_newer_package_was_not_held_against_is_told_by_name(trial: Make) -> None:
    tried = trial(["moving"])
    assert told(tried, "numpy", "1.26.5") == []
    assert tried.unchecked(subject(tried, "numpy")) == ("moving",)
    assert tried.unchecked(subject(tried, "vllm")) == (), "it is no package, and is held against no demand"
    tried = trial([])
    assert told(tried, "numpy", "1.26.5") == ["numpy is pinned to 1.26.5; moving asks for numpy<1.26.5 (its file)"]
    assert tried.unchecked(subject(tried, "numpy")) == ()


def test_a_relaxation_of_what_could_not_be_read_is_no_fault_and_one_of_what_is_written_down_counts(
    trial: Make,
) -> None:
    text = WITH_BUILD + RELAX.format(whose="moving", demand="numpy<1.26.5") + RELAX.format(whose="vllm", demand="six<2")
    tried = trial(["vllm", "moving"], text)
    assert told(tried, "six", "2.1") == []
    assert len(told(tried, "setuptools", "84.2.1")) == 1, "nothing else was lifted"


def test_pyarrow_26_is_known_to_refuse_the_numpy_of_these_images_when_it_is_imported(trial: Make) -> None:
    """As reported: it was recommended, though a comment beside its pin says why it is held back."""
    tried = trial([], WITH_BUILD.replace('six = "1.0"', 'six = "1.0"\npyarrow = "24.0.0"'))
    (broken,) = tried.breaks(subject(tried, "pyarrow"), "26.0.1")
    assert (broken.rule, broken.wanted) == ("import-refused", "numpy>=2, or pyarrow not >=26")


def test_of_a_source_that_cannot_be_read_nothing_is_taken_for_granted() -> None:
    sources = {source.name: source for source in real("a2").sources}
    vllm = [str(one.requirement) for one in declared_demands(sources["vllm"])]
    assert vllm == list(map(str, map(Requirement, sources["vllm"].build_requires)))
    assert declared_demands(sources["MindSpeed"]) == ()


def test_every_pyarrow_of_the_project_is_one_that_the_rule_lets_through() -> None:
    pins = select(Path(__file__).parents[2], everything=True).pins
    assert not [f for one in resolve_all(pins) for f in one.findings if f.rule == "import-refused"]
