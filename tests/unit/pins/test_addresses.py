"""Addresses are shown without logins, and known for holding one."""

import pytest

from ascend_images.pins.addresses import holds_login, masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:s3cret@host/x", "https://***@host/x"),
        ("https://s3cret@host/x", "https://***@host/x"),
        (
            "for url: https://me:s3cret@host:8443/x and http://a@b/",
            "for url: https://***@host:8443/x and http://***@b/",
        ),
        # Written without %2F and %40.
        ("https://me:s3c/ret@host/x", "https://***@host/x"),
        ("https://me:s3c@ret@host/x", "https://***@host/x"),
        # What looks like one.
        ("git+https://host/x@v1.2", "git+https://host/x@v1.2"),
        ("https://host:8443/x@v1.2", "https://host:8443/x@v1.2"),
        ("https://host/x: see me@host", "https://host/x: see me@host"),
    ],
)
def test_an_address_is_shown_without_its_login(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    ("url", "holds"),
    [
        ("https://me:s3cret@host/x", True),
        ("https://me@host/x", True),
        ("http://me@host/x", True),
        ("https://me:s3c/ret@host/x", True),
        ("ssh://git:s3cret@host/x", True),
        ("ssh://git@host/x", False),
        ("git@host:x", False),
        ("https://host/x@v1", False),
        ("../x", False),
        ("https://[::1", False),
    ],
)
def test_a_login_in_an_address_is_known(url: str, holds: bool) -> None:
    assert holds_login(url) is holds
