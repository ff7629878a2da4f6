"""What a lock is made with: nothing by which certificates would go unchecked."""

import pytest

from ascend_images.errors import BadInput
from ascend_images.lock import means
from ascend_images.lock.means import usual_means
from ascend_images.pins.model import Mirror


@pytest.fixture(autouse=True)
def plain_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(means, "require_checked_hosts", lambda _: None)
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"])
@pytest.mark.parametrize("value", ["http://index.example", "foo", "file:///simple", "https://[::1", "corp=http://x"])
def test_an_index_of_the_environment_without_https_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(BadInput) as error:
        usual_means()
    assert name in str(error.value)


@pytest.mark.parametrize(("name", "value"), [("GIT_SSL_NO_VERIFY", "1"), ("UV_INSECURE_HOST", "x")])
def test_a_switch_in_the_environment_is_refused_as_for_a_build(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(BadInput, match=f"switches TLS off: {name}"):
        usual_means()


@pytest.mark.parametrize(
    "mirror",
    [
        Mirror(index={"default": "http://near.example"}),
        Mirror(index={"ascend": "http://me:s3cret@near.example"}),
        Mirror(git={"https://github.com/": "http://near.example/"}),
        Mirror(git={"https://github.com/": "git://near.example/"}),
    ],
)
def test_a_mirror_without_https_is_refused(mirror: Mirror) -> None:
    with pytest.raises(BadInput, match="not an https address") as error:
        usual_means(mirror)
    assert "s3cret" not in str(error.value)


def test_an_index_with_the_caller_s_own_password_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:s3cret@index.example/simple")
    usual_means()


def test_the_machine_s_files_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise BadInput("asked")

    monkeypatch.setattr(means, "require_checked_hosts", refuse)
    with pytest.raises(BadInput, match="asked"):
        usual_means()
