"""Requirement files and static pyproject.toml files are read into demands, each with the place it stands in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.lock.demands import Kind
from ascend_images.lock.requirement_files import project_name, pyproject_file, requirement_file


def read(files: dict[str, str], path: str = "requirements.txt") -> list[tuple[str, str]]:
    return [(str(found.requirement), found.where) for found in requirement_file("vllm", path, files.__getitem__)]


def test_lines_become_demands_with_file_and_line() -> None:
    text = "# a comment\n\nnumpy >= 2  # why\nray[default]>=2.41 ; python_version > '3.11'\n"
    assert read({"requirements.txt": text}) == [
        ("numpy>=2", "requirements.txt:3"),
        ('ray[default]>=2.41; python_version > "3.11"', "requirements.txt:4"),
    ]


def test_a_line_may_continue_and_has_the_number_of_its_first() -> None:
    assert read({"requirements.txt": "a\nnumpy \\\n  >=2 \\\n  ,<3\nb"}) == [
        ("a", "requirements.txt:1"),
        ("numpy<3,>=2", "requirements.txt:2"),
        ("b", "requirements.txt:5"),
    ]


def test_included_files_are_read_from_where_the_including_one_lies() -> None:
    files = {
        "requirements/npu.txt": "-r common.txt\n--requirement ../base.txt\n-rmore.txt\ntorch",
        "requirements/common.txt": "numpy",
        "base.txt": "six",
        "requirements/more.txt": "attrs",
    }
    assert read(files, "requirements/npu.txt") == [
        ("numpy", "requirements/common.txt:1"),
        ("six", "base.txt:1"),
        ("attrs", "requirements/more.txt:1"),
        ("torch", "requirements/npu.txt:4"),
    ]


def test_a_file_that_includes_itself_is_refused() -> None:
    with pytest.raises(BadInput, match=r"a\.txt includes itself by way of a\.txt -> b\.txt"):
        read({"a.txt": "-r b.txt", "b.txt": "-r a.txt"}, "a.txt")


@pytest.mark.parametrize(
    "line",
    ["--index-url https://example.invalid", "-i https://example.invalid", "--extra-index-url x", "--trusted-host x",
     "--find-links dir", "--pre", "--no-binary :all:"],
)  # fmt: skip
def test_where_packages_come_from_is_not_for_a_source_to_say(line: str) -> None:
    assert read({"requirements.txt": f"{line}\nnumpy"}) == [("numpy", "requirements.txt:2")]


def test_options_of_one_requirement_are_left_out() -> None:
    assert read({"requirements.txt": "numpy==1.26.4 --hash=sha256:00"}) == [("numpy==1.26.4", "requirements.txt:1")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-e .", "an option that is not understood: -e ."),
        ("git+https://example.invalid/x", "an address in place of a package"),
        ("./local", "an address in place of a package"),
        ("numpy => 2", "not a requirement: numpy => 2"),
    ],
)
def test_what_cannot_be_read_names_source_file_and_line(line: str, message: str) -> None:
    with pytest.raises(BadInput) as failure:
        read({"requirements.txt": f"torch\n{line}"})
    assert message in str(failure.value)
    assert "vllm: requirements.txt:2" in str(failure.value)


@given(st.lists(st.sampled_from(["numpy>=2", "six", "attrs<3  # x", "", "# y", "a\\\n>=1"]), max_size=12))
def test_every_demand_carries_the_number_of_the_line_it_begins_in(lines: list[str]) -> None:
    text = "\n".join(lines)
    for found in requirement_file("vllm", "r.txt", lambda path: text):
        number = int(found.where.rpartition(":")[2])
        assert text.splitlines()[number - 1].startswith(found.requirement.name)


PYPROJECT = """
[build-system]
requires = ["setuptools>=80.0.0", "pybind11"]
[project]
name = "megatron-core"
dependencies = ["torch>=2.6.0", "numpy<2.0.0"]
"""


def test_a_static_pyproject_says_what_is_needed_to_run_and_to_build() -> None:
    found = pyproject_file("Megatron-LM", "pyproject.toml", lambda path: PYPROJECT, built=True)
    assert [(str(one.requirement), one.where, one.kind) for one in found] == [
        ("torch>=2.6.0", "pyproject.toml [project]", Kind.RUN),
        ("numpy<2.0.0", "pyproject.toml [project]", Kind.RUN),
        ("setuptools>=80.0.0", "pyproject.toml [build-system]", Kind.BUILD),
        ("pybind11", "pyproject.toml [build-system]", Kind.BUILD),
    ]
    found = pyproject_file("Megatron-LM", "pyproject.toml", lambda path: PYPROJECT, built=False)
    assert {one.kind for one in found} == {Kind.RUN}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[project", "Megatron-LM: pyproject.toml: "),
        ("[tool.x]", "has no [project] table"),
        ('[project]\nname = "x"\ndynamic = ["dependencies"]', "leaves its dependencies to the build"),
        ('[project]\ndependencies = ["numpy =< 1"]', "pyproject.toml [project]: not a requirement: numpy =< 1"),
    ],
)
def test_a_pyproject_that_does_not_say_it_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput) as failure:
        pyproject_file("Megatron-LM", "pyproject.toml", lambda path: text, built=True)
    assert message in str(failure.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [(PYPROJECT, "megatron-core"), ('[project]\nname = "Vllm_Ascend"', "vllm-ascend"), ("", ""), ("[", "")],
)
def test_a_project_is_told_by_its_normalised_name(text: str, name: str) -> None:
    assert project_name(text) == name
