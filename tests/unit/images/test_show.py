"""What a person sees of running builds: plain lines, or a table on a terminal."""

import io
import json

import pytest

from ascend_images.images.progress import BuildState, Line
from ascend_images.images.show import PlainView, live_view, view_on

STATUS = {
    "vertexes": [
        {"digest": "a", "name": "[internal] load", "started": "x", "completed": "y"},
        {"digest": "b", "name": "[packages 2/3] RUN [bold]x[/bold]", "started": "2026-01-01T00:00:00Z"},
    ]
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def a_build(view) -> None:
    state = BuildState()
    view.started("a2 amd64")
    for line in state.feed(json.dumps(STATUS)):
        view.said("a2 amd64", line)
    view.said("a2 amd64", Line("#2 0.1 output", heading=False))
    view.update("a2 amd64", state)
    view.ended("a2 amd64", False, 12.34)


def test_plain_lines_tell_steps_and_leave_their_output_to_the_log() -> None:
    out = io.StringIO()
    a_build(PlainView(out))
    assert out.getvalue().splitlines() == [
        "a2 amd64: building",
        "a2 amd64: #2 [packages 2/3] RUN [bold]x[/bold]",
        "a2 amd64: FAILED after 12.3 s",
    ]


def test_a_terminal_shows_each_image_where_it_stands_and_what_it_does() -> None:
    out = Terminal()
    with live_view(out, ["a2 amd64", "a3 amd64"]) as view:
        a_build(view)
    text = out.getvalue()
    assert "a3 amd64" in text
    assert "waiting" in text
    assert "FAILED" in text
    assert "12 s" in text


def test_a_steps_name_is_shown_as_it_is_and_not_as_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = Terminal()
    with live_view(out, ["a2 amd64"]) as view:
        view.started("a2 amd64")
        state = BuildState()
        state.feed(json.dumps(STATUS))
        monkeypatch.setattr("ascend_images.images.show._REDRAW_SECONDS", 0.0)
        view.update("a2 amd64", state)
    assert "[bold]x[/bold]" in out.getvalue()
    assert "0/1" in out.getvalue()


@pytest.mark.parametrize(
    ("stream", "term", "live"),
    [
        (Terminal(), "xterm", True),
        (Terminal(), "dumb", False),
        (Terminal(), None, False),
        (io.StringIO(), "xterm", False),
    ],
)
def test_only_a_terminal_that_can_redraw_gets_the_table(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, term: str | None, live: bool
) -> None:
    if term is None:
        monkeypatch.delenv("TERM", raising=False)
    else:
        monkeypatch.setenv("TERM", term)
    with view_on(stream, ["x"]) as view:
        assert isinstance(view, PlainView) is not live
