"""Locking by a company's CA: trusted besides what the machine trusts, by every program that is asked, for that long."""

import os
import ssl
from pathlib import Path
from types import SimpleNamespace

import pytest
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from ascend_images import locking
from ascend_images.errors import BadInput
from ascend_images.selection import select

ROOT = Path(__file__).parents[2]
END = "-----END CERTIFICATE-----\n"
PUBLIC = Path(DEFAULT_CA_BUNDLE_PATH).read_text()
ONE, OTHER = (text + END for text in PUBLIC[PUBLIC.index("-----BEGIN") :].split(END)[:2])
VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "machine.pem").write_text(f"# the machine's\n{OTHER}")
    monkeypatch.setenv("GIT_SSL_CAINFO", str(tmp_path / "machine.pem"))


def test_every_program_is_told_of_the_machines_certificates_and_the_companys() -> None:
    before = dict(os.environ)
    with locking.trusting(f"# the company's\n{ONE}".encode()):
        (bundle,) = {os.environ[name] for name in VARIABLES}
        content = Path(bundle).read_text()
        ssl.create_default_context(cafile=bundle)
    assert content.index("# the machine's") < content.index("# the company's")
    assert PUBLIC in content
    assert dict(os.environ) == before
    assert not Path(bundle).exists()


def test_the_environment_comes_back_after_a_failure() -> None:
    before = dict(os.environ)
    with pytest.raises(ZeroDivisionError), locking.trusting(ONE.encode()):
        raise ZeroDivisionError
    assert dict(os.environ) == before


def test_a_lock_is_made_by_the_ca_and_its_lines_are_told_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[str] = []

    def lock_variant(*_: object, **__: object) -> dict[object, object]:
        seen.append(Path(os.environ["SSL_CERT_FILE"]).read_text())
        return {}

    monkeypatch.setattr(locking, "lock_variant", lock_variant)
    monkeypatch.setattr(locking, "usual_means", lambda *_, **__: SimpleNamespace())
    (tmp_path / "corp.pem").write_text(f"# the company's\n{ONE}")
    chosen = select(ROOT, ("a2", "a3"))
    lines = list(locking.lock(chosen, (), {}, ca_bundle=tmp_path / "corp.pem", say=print))
    assert lines == []
    assert ["# the company's" in text for text in seen] == [True, True]
    assert "SSL_CERT_FILE" not in os.environ


def test_a_bundle_that_holds_no_certificates_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "corp.pem").write_text("nonsense")
    with pytest.raises(BadInput, match="holds no certificates"):
        list(locking.lock(select(ROOT, ("a2",)), (), {}, ca_bundle=tmp_path / "corp.pem", say=print))
