"""The stream of `--progress=rawjson`: read, logged, searched for the failing step. The streams are buildx 0.13.1's."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.images.progress import KEPT_LINES, SHOWN_LINES, BuildState, Messages

STREAMS = Path(__file__).parents[2] / "data" / "progress"


def told(stream: str, hide: tuple[str, ...] = ()) -> tuple[BuildState, list[str]]:
    """The state after a whole stream, and the lines of its log."""
    state = BuildState(hide)
    lines = [line.text for text in stream.splitlines(keepends=True) for line in state.feed(text)]
    return state, lines + [line.text for line in state.end()]


def recorded(name: str) -> tuple[BuildState, list[str]]:
    return told((STREAMS / f"{name}.txt").read_text())


def status(**parts: Any) -> str:
    return json.dumps(parts, indent=2) + "\n"


def vertex(name: str = "[s 1/1] RUN x", digest: str = "v", **parts: Any) -> dict[str, Any]:
    return {"digest": digest, "name": name, "started": "2026-01-01T00:00:00Z", **parts}


def log(text: str, digest: str = "v", stream: int = 1) -> dict[str, Any]:
    data = base64.b64encode(text.encode()).decode()
    return {"vertex": digest, "stream": stream, "data": data, "timestamp": "2026-01-01T00:00:01.5Z"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
STATUSES = st.tuples(st.dictionaries(st.text(), JSON, max_size=3), st.sampled_from([None, 2]))
PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1).filter(
    lambda text: not text.startswith(("{", "}"))
)


@given(st.lists(STATUSES | PLAIN))
def test_a_stream_splits_into_the_statuses_and_texts_it_was_made_of(parts: list[Any]) -> None:
    """On one line (newer buildx) or many (0.13), in any order."""
    lines = [
        line
        for part in parts
        for line in ([part] if isinstance(part, str) else json.dumps(part[0], indent=part[1]).split("\n"))
    ]
    messages = Messages()
    found = [message for line in lines for message in messages.feed(line + "\n")]
    assert found == [part if isinstance(part, str) else part[0] for part in parts]
    assert list(messages.end()) == []


@given(st.lists(st.text(max_size=20) | st.sampled_from(["{", "}", '{"vertexes": [{}]}', "{}", '  "a": 1'])))
def test_no_stream_is_too_broken_to_read(lines: list[str]) -> None:
    state = BuildState()
    for line in lines:
        state.feed(line)
    state.end()


def test_text_that_begins_with_a_brace_does_not_swallow_the_status_after_it() -> None:
    state, lines = told("{oops\n" + status(vertexes=[vertex()]))
    assert lines == ["{oops", "#1 [s 1/1] RUN x"]
    assert state.current is not None


def test_a_status_cut_off_in_the_middle_stays_in_the_log() -> None:
    assert told('{\n  "vertexes": [\n')[1] == ["{", '  "vertexes": [']


def test_the_failing_step_is_the_one_that_failed_and_not_those_cancelled_with_it() -> None:
    failure = recorded("failing")[0].failed_step()
    assert failure is not None
    assert failure.step.startswith("[packages 1/1] RUN")
    assert (failure.command, failure.line, failure.code) == ("cat /no/such/file", 12, 1)
    assert failure.error == "exit code 1"
    assert failure.output[-2:] == (
        "cat: /no/such/file: No such file or directory",
        "line 12 failed (1): cat /no/such/file",
    )


def test_a_failure_inside_a_shared_function_names_the_line_of_the_step_and_the_reason() -> None:
    failure = recorded("failing-in-function")[0].failed_step()
    assert failure is not None
    assert failure.error == "three attempts failed: false"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("line 3 failed (127): nosuch --x (y)", (3, 127, "nosuch --x (y)", "")),
        (
            "line 9 failed (2): tar x (in unpack, line 41 of build.sh)",
            (9, 2, "tar x", "in unpack, line 41 of build.sh"),
        ),
    ],
)
def test_what_the_trap_says_is_read(line: str, wanted: tuple[int, int, str, str]) -> None:
    error = 'process "/bin/bash -c x" did not complete successfully: exit code: 1'
    state, _ = told(
        status(vertexes=[vertex()])
        + status(logs=[log(f"{line}\n")])
        + status(vertexes=[vertex(completed="2026-01-01T00:00:02Z", error=error)])
    )
    failure = state.failed_step()
    assert failure is not None
    assert (failure.line, failure.code, failure.command, failure.inside) == wanted
    assert f"line {wanted[0]} of it" in str(failure)


def test_output_that_only_mentions_a_failed_line_is_not_the_traps() -> None:
    error = "did not complete successfully: exit code: 5"
    state, _ = told(
        status(vertexes=[vertex()])
        + status(logs=[log("test: line 3 failed (1): x\n")])
        + status(vertexes=[vertex(completed="2026-01-01T00:00:02Z", error=error)])
    )
    failure = state.failed_step()
    assert failure is not None
    assert (failure.line, failure.code, failure.command) == (None, 5, "RUN x")


def test_a_failure_before_any_step_is_told_in_the_clients_words() -> None:
    failure = recorded("no-dockerfile")[0].failed_step()
    assert failure is not None
    assert failure.step == ""
    assert "open none.Dockerfile: no such file or directory" in failure.error
    assert "before any step ran" in str(failure)


def test_a_build_that_went_well_has_no_failed_step() -> None:
    state, lines = recorded("good")
    assert state.failed_step() is None
    assert state.current is None
    assert state.done == state.known > 0
    assert any(line.endswith((" DONE 0.0s", " CACHED")) for line in lines)


def test_pieces_of_a_line_come_together_and_the_terminals_tricks_are_undone() -> None:
    text = "\n".join(recorded("failing")[1])
    assert " half a line, the other half" in text
    assert " 100%" in text
    assert "50%" not in text.partition("rec.Dockerfile:4")[0]
    assert "\x1b" not in text
    assert " red" in text


def test_the_two_outputs_of_a_step_do_not_mix_within_a_line() -> None:
    _, lines = told(
        status(vertexes=[vertex()])
        + status(logs=[log("one "), log("two ", stream=2), log("more\n"), log("words\n", stream=2)])
    )
    assert [line.split(" ", 2)[2] for line in lines[1:]] == ["one more", "two words"]


def test_a_last_line_without_its_end_is_kept() -> None:
    state, lines = told(status(vertexes=[vertex()]) + status(logs=[log("no end")]))
    assert lines[-1].endswith("no end")
    assert list(state.steps["v"].lines) == ["no end"]


def test_only_the_last_lines_of_a_step_are_kept_and_fewer_are_shown() -> None:
    many = "".join(f"{number}\n" for number in range(KEPT_LINES + 50))
    state, lines = told(
        status(vertexes=[vertex()]) + status(logs=[log(many)]) + status(vertexes=[vertex(completed="x", error="bad")])
    )
    failure = state.failed_step()
    assert failure is not None
    assert len(failure.output) == SHOWN_LINES
    assert len(state.steps["v"].lines) == KEPT_LINES
    assert len(lines) == KEPT_LINES + 50 + 2, "the log has them all"


def test_credentials_are_blotted_out_of_names_output_errors_and_texts() -> None:
    secret = "s3cret"
    state, lines = told(
        f"text with {secret}\n"
        + status(vertexes=[vertex(f"RUN git clone https://me:{secret}@host/x")])
        + status(logs=[log(f"fatal: https://me:{secret}@host\n")])
        + status(vertexes=[vertex(completed="x", error=f"no {secret}")]),
        hide=(secret, ""),
    )
    failure = state.failed_step()
    assert secret not in "\n".join(lines) + str(failure)
    assert "***" in str(failure)


def test_a_step_that_is_begun_again_is_not_done_twice() -> None:
    ended = vertex(completed="2026-01-01T00:00:02Z")
    _, lines = told(status(vertexes=[ended]) + status(vertexes=[ended]))
    assert lines == ["#1 [s 1/1] RUN x", "#1 DONE 2.0s"]


def test_a_warning_of_the_engine_is_shown() -> None:
    short = base64.b64encode(b"deprecated thing").decode()
    assert told(status(warnings=[{"short": short}]))[1] == ["warning: deprecated thing"]


def test_a_step_that_ends_itself_with_a_reason_is_shown_once() -> None:
    long = "RUN --mount=type=cache,target=/root/.cache " + "x" * 200
    error = 'process "/bin/bash -c x" did not complete successfully: exit code: 1'
    state, _ = told(
        status(vertexes=[vertex(f"[s 1/1] {long}")])
        + status(logs=[log("build stopped: the lock is incomplete\n")])
        + status(vertexes=[vertex(f"[s 1/1] {long}", completed="2026-01-01T00:00:02Z", error=error)])
    )
    failure = state.failed_step()
    assert failure is not None
    assert (failure.command, failure.error) == (long, "the lock is incomplete")
    assert str(failure).count(long) == 1


@pytest.mark.parametrize("name", ["importing cache manifest from r.example/x:cache-a", "exporting cache to registry"])
def test_a_cache_that_cannot_be_had_is_told_and_fails_nothing(name: str) -> None:
    """BuildKit ends such a step with an error; what fails later is to blame for itself."""
    lost = vertex(name, "c", completed="2026-01-01T00:00:01Z", error="not found")
    bad = vertex(completed="2026-01-01T00:00:02Z", error="did not complete successfully: exit code: 7")
    state, lines = told(status(vertexes=[lost]) + status(vertexes=[bad]))
    assert "#1 NO CACHE: not found" in lines
    failed = state.failed_step()
    assert failed is not None
    assert failed.code == 7
    assert told(status(vertexes=[lost]))[0].failed_step() is None
