"""What a distribution asks for is read from its wheel or sdist, none of it run."""

import io
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ascend_images.lock.metadata import (
    DEFAULT_BUILD,
    parse_metadata,
    parse_requires_txt,
    sdist_metadata,
    setup_demands,
    wheel_metadata,
)
from ascend_images.lock.placeholder import Placeholder, write_wheel

METADATA = """Metadata-Version: 2.1
Name: opencv-python-headless
Version: 4.13.0.92
Requires-Python: >=3.6
Provides-Extra: all
Requires-Dist: numpy<2.0; python_version < "3.9"
Requires-Dist: numpy>=2; python_version >= "3.9"
Requires-Dist: not a requirement at all (
Requires-Dist: rich; extra == "all"

A description that is no header: Requires-Dist: nothing
"""


def texts(requirements: Iterable[Requirement]) -> list[str]:
    return [str(requirement) for requirement in requirements]


def test_metadata_gives_demands_pythons_and_extras_and_leaves_out_what_nobody_can_parse() -> None:
    found = parse_metadata(METADATA)
    assert texts(found.requires) == [
        'numpy<2.0; python_version < "3.9"',
        'numpy>=2; python_version >= "3.9"',
        'rich; extra == "all"',
    ]
    assert (found.requires_python, found.extras) == (">=3.6", ("all",))


@pytest.mark.parametrize(
    ("head", "known"),
    [
        ("Metadata-Version: 2.2", True),
        ("Metadata-Version: 2.2\nDynamic: Requires-Dist", False),
        ("Metadata-Version: 2.1", False),
        ("Metadata-Version: 2.1\nRequires-Dist: six", True),
        ("Metadata-Version: nonsense", False),
    ],
)
def test_an_sdists_silence_counts_only_where_the_format_makes_it_an_answer(head: str, known: bool) -> None:
    assert parse_metadata(head).known is known


def test_a_wheel_says_all_there_is() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("six-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: six\n")
        archive.writestr("vendor/other-1.0.dist-info/METADATA", "Requires-Dist: wrong")
    found = wheel_metadata(stream)
    assert (found.requires, found.known) == ((), True)


def test_a_wheel_without_metadata_is_an_error() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("six.py", "")
    with pytest.raises(ValueError, match="holds no METADATA"):
        wheel_metadata(stream)


def test_a_placeholder_is_a_wheel_that_asks_for_what_it_was_told(tmp_path: Path) -> None:
    asked = parse_metadata(METADATA).requires
    path = write_wheel(Placeholder("OpenCV_Python.Headless", "4.13.0.92", asked, ("all",)), tmp_path)
    assert path.name == "opencv_python_headless-4.13.0.92-py3-none-any.whl"
    with path.open("rb") as stream:
        found = wheel_metadata(stream)
    assert (found.requires, found.extras) == (asked, ("all",))


REQUIRES_TXT = """six

[all]
rich

[:python_version < '3.9']
importlib-metadata

[t:sys_platform == 'linux']
x; os_name == 'posix'
"""


def test_requires_txt_has_sections_for_extras_and_markers() -> None:
    assert texts(parse_requires_txt(REQUIRES_TXT)) == [
        "six",
        'rich; extra == "all"',
        'importlib-metadata; python_version < "3.9"',
        'x; os_name == "posix" and sys_platform == "linux" and extra == "t"',
    ]


def sdist(files: dict[str, str], *, zipped: bool = False) -> tuple[bytes, str]:
    stream = io.BytesIO()
    if zipped:
        with zipfile.ZipFile(stream, "w") as archive:
            for name, text in files.items():
                archive.writestr(f"x-1/{name}", text)
        return stream.getvalue(), "x-1.zip"
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"x-1/{name}")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return stream.getvalue(), "x-1.tar.gz"


OLD = {"PKG-INFO": "Metadata-Version: 1.1\nName: x"}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("files", "requires", "known"),
    [
        ({"PKG-INFO": "Metadata-Version: 2.1\nRequires-Dist: six"}, ["six"], True),
        ({**OLD, "x.egg-info/requires.txt": "six>=1\n"}, ["six>=1"], True),
        ({**OLD, "src/x.egg-info/requires.txt": "six>=1\n"}, ["six>=1"], True),
        ({**OLD, "x.egg-info/SOURCES.txt": "x.py"}, [], True),
        ({**OLD, "pyproject.toml": '[project]\ndependencies = ["six"]'}, ["six"], True),
        ({**OLD, "pyproject.toml": '[project]\ndynamic = ["dependencies"]'}, [], False),
        ({**OLD, "setup.py": "from setuptools import setup\nsetup(name='x', install_requires=['six'])"}, ["six"], True),
        ({**OLD, "setup.py": "from distutils.core import setup\nsetup(name='x')"}, [], True),
        ({**OLD, "setup.py": "setup(install_requires=open('r.txt').read())"}, [], False),
        (OLD, [], False),
    ],
)
def test_an_sdists_demands_are_read_where_they_stand(
    files: dict[str, str], requires: list[str], known: bool, zipped: bool
) -> None:
    found = sdist_metadata(*sdist(files, zipped=zipped))
    assert (texts(found.requires), found.known) == (requires, known)


def test_an_sdist_says_what_building_it_takes_or_takes_setuptools() -> None:
    assert sdist_metadata(*sdist(OLD)).build == DEFAULT_BUILD
    pyproject = '[build-system]\nrequires = ["torch==2.7.0", "ninja"]'
    assert texts(sdist_metadata(*sdist({**OLD, "pyproject.toml": pyproject})).build) == ["torch==2.7.0", "ninja"]
    assert sdist_metadata(*sdist({**OLD, "pyproject.toml": "[broken"})).build == DEFAULT_BUILD


@pytest.mark.parametrize("filename", ["x-1.tar.gz", "x-1.zip"])
@pytest.mark.parametrize("content", [b"nothing", sdist({**OLD, "setup.py": "x" * 9999})[0][:90]], ids=["other", "cut"])
def test_what_is_no_archive_or_half_of_one_is_an_error(content: bytes, filename: str) -> None:
    with pytest.raises(ValueError, match="not an archive"):
        sdist_metadata(content, filename)


@pytest.mark.parametrize(
    ("code", "requires"),
    [
        ("setup(install_requires='six\\nattrs')", ["six", "attrs"]),
        ("import setuptools\nsetuptools.setup(requires=['six'])", ["six"]),
        ("setup(**settings)  # install_requires", None),
        ("setup(install_requires=[x for x in y])", None),
        ("install_requires = ['six']", None),
        ("this is not Python: install_requires", None),
    ],
)
def test_a_setup_py_is_read_and_never_run(code: str, requires: list[str] | None) -> None:
    found = setup_demands(code)
    assert (None if found is None else texts(found)) == requires
