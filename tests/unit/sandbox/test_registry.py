"""The sandbox's registry as a command: started, found again, stopped."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import tasks
from ascend_images.sandbox.registry import Registry, clean_environment, config_text

CONTEXT = SimpleNamespace(config=SimpleNamespace(run=SimpleNamespace(dry=False)))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASCEND_IMAGES_STATE", str(tmp_path))
    return tmp_path


def test_its_address_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Registry, "start", lambda _: "127.0.0.1:5055")
    tasks.registry.body(CONTEXT)
    assert capsys.readouterr().out == "127.0.0.1:5055\n"


@pytest.mark.parametrize(
    ("ran", "said"), [(True, "stopped; its images are in {}/registry"), (False, "it does not run")]
)
def test_it_is_stopped(
    ran: bool, said: str, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Registry, "stop", lambda _: ran)
    tasks.registry.body(CONTEXT, stop=True)
    assert capsys.readouterr().out == f"{said.format(state)}\n"


def test_one_that_was_never_started_does_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    tasks.registry.body(CONTEXT, stop=True)
    assert capsys.readouterr().out == "it does not run\n"


def test_it_listens_on_loopback_and_lets_manifests_be_deleted() -> None:
    text = config_text(Path("/x"), 5055)
    assert "addr: '127.0.0.1:5055'" in text
    assert "delete: {enabled: true}" in text


def test_variables_that_would_change_its_configuration_do_not_reach_it() -> None:
    assert clean_environment({"REGISTRY_HTTP_ADDR": "0.0.0.0:1", "PATH": "/bin"}) == {"PATH": "/bin"}
