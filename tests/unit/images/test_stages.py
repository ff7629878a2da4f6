import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.images.dockerfile import instructions
from ascend_images.images.render import render
from ascend_images.images.stages import stage_names
from tests.unit.images.mini import mini, overlay

NAMES = st.from_regex(r"[a-z][a-z0-9_.-]{0,12}", fullmatch=True)
LINES = st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=30), max_size=6)


def test_stages_are_listed_in_order_and_the_last_has_no_name() -> None:
    text = (
        "FROM scratch AS wheels\nFROM --platform=$BUILDPLATFORM base@sha256:0 as Src-X\nRUN true\nFROM src-x\nRUN x\n"
    )
    assert stage_names(text) == ("wheels", "src-x")


def test_a_rendered_file_has_no_stage_twice() -> None:
    names = stage_names(render(overlay()))
    assert len(names) == len(set(names)) > 20


def test_from_inside_a_script_is_no_stage() -> None:
    text = "FROM a AS one\nRUN <<'EOR'\nFROM b AS two\nEOR\n\nCOPY <<EOF /x\nFROM c AS three\nEOF\n\n# FROM d AS four\n"
    assert stage_names(text) == ("one",)


def test_from_in_a_continued_line_is_no_stage() -> None:
    assert stage_names("FROM a AS one\nRUN echo \\\n# a comment\n\n  FROM b AS two\n") == ("one",)


def test_a_stage_twice_is_refused_with_its_line() -> None:
    with pytest.raises(BadInput, match="line 2"):
        stage_names("FROM a AS x\nFROM b AS X\n")


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="1x"):
        stage_names("FROM a AS 1x\n")


@given(st.lists(NAMES, unique=True, max_size=8))
def test_all_names_are_found(names: list[str]) -> None:
    assert stage_names("".join(f"FROM scratch AS {name}\nRUN true\n" for name in names)) == tuple(names)


@given(LINES, st.sampled_from(["'EOR'", '"EOR"', "EOR"]))
def test_a_heredoc_comes_back_line_by_line_whatever_it_holds(lines: list[str], mark: str) -> None:
    lines = [line for line in lines if line != "EOR"]
    body = "".join(f"{line}\n" for line in lines)
    text = f"FROM a\n\nRUN --mount=type=tmpfs,target=/tmp \\\n    --network=none <<{mark}\n{body}EOR\nCMD x\n"
    _, run, last = instructions(text)
    assert run.heredocs[0].text == body
    assert run.heredocs[0].line == 5
    assert run.flags == (("mount", "type=tmpfs,target=/tmp"), ("network", "none"))
    assert (last.name, last.line) == ("CMD", 6 + len(lines))


def test_a_heredoc_with_a_dash_loses_its_tabs() -> None:
    (run,) = instructions("RUN <<-EOR\n\techo x\n\tEOR\n")
    assert run.heredocs[0].text == "echo x\n"


def test_two_heredocs_of_one_instruction_follow_one_another() -> None:
    (copy,) = instructions("COPY <<A <<B /\n1\nA\n2\nB\n")
    assert [(one.name, one.text) for one in copy.heredocs] == [("A", "1\n"), ("B", "2\n")]


def test_a_here_string_is_no_heredoc() -> None:
    (run, last) = instructions("RUN read -r x <<<word\nCMD x\n")
    assert run.heredocs == ()
    assert last.name == "CMD"


def test_a_heredoc_that_does_not_end_is_refused_with_its_line() -> None:
    with pytest.raises(BadInput, match=r"x\.Dockerfile:2: the heredoc EOR does not end"):
        instructions("FROM a\nRUN <<EOR\ntrue\n", path="x.Dockerfile")


def test_what_is_no_instruction_is_refused_with_its_line() -> None:
    with pytest.raises(BadInput, match="Dockerfile:2"):
        instructions("FROM a\n}} x\n")


def test_an_empty_text_has_no_instruction() -> None:
    assert instructions("\n# only a comment\n") == ()


def test_every_line_of_a_rendered_file_belongs_to_what_it_is_said_to() -> None:
    text = render(mini())
    lines = text.splitlines()
    for one in instructions(text):
        assert lines[one.line - 1].split()[0].upper() == one.name
        for heredoc in one.heredocs:
            first = heredoc.text.splitlines()[0]
            assert lines[heredoc.line - 1] == first
