"""Whether the container's user may open the nodes, and what it is given for that."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.host.access import Identity, groups_needed, identify, require_passwd_entry
from ascend_images.host.workspace import require_writable
from tests.run_kit import PASSWD, nodes

NODE = nodes("/dev/davinci0")


@pytest.mark.parametrize(
    ("user", "who"),
    [
        ("", Identity(0, 0, True)),
        ("root", Identity(0, 0, True)),
        ("0", Identity(0, 0, True)),
        ("0:44", Identity(0, 44, True)),
        ("ann", Identity(1100, 1100, True)),
        ("1100", Identity(1100, 1100, True)),
        ("1100:5", Identity(1100, 5, True)),
        ("2000", Identity(2000, 0, False)),
        ("2000:1000", Identity(2000, 1000, False)),
    ],
)
def test_a_user_is_told_by_the_images_passwd(user: str, who: Identity) -> None:
    assert identify(user, PASSWD) == who


def test_without_a_passwd_nothing_is_said_of_entries() -> None:
    assert identify("2000", None) == Identity(2000, None, None)
    assert identify("root", None) == Identity(0, 0, True)
    assert identify("2000", "") == Identity(2000, 0, False)


@pytest.mark.parametrize(("user", "passwd"), [("bob", PASSWD), ("ann", None), ("1000:video", PASSWD), ("-1", PASSWD)])
def test_a_user_that_nobody_knows_is_refused(user: str, passwd: str | None) -> None:
    with pytest.raises(BadInput, match="--user"):
        identify(user, passwd)


@given(st.text(), st.text())
def test_no_passwd_and_no_user_is_a_traceback(user: str, passwd: str) -> None:
    with contextlib.suppress(BadInput):
        identify(user, passwd)


def test_the_group_that_owns_the_nodes_is_added_by_its_number() -> None:
    assert groups_needed(identify("2000", PASSWD), NODE, ()) == (1000,)
    assert groups_needed(identify("2000", PASSWD), nodes("/dev/davinci0", gid=1234), ()) == (1234,)
    mixed = (*NODE, *nodes("/dev/hisi_hdc", gid=44))
    assert groups_needed(identify("2000", PASSWD), mixed, (7,)) == (7, 1000, 44)


@pytest.mark.parametrize("user", ["2000:1000", "1000", "root"])
def test_who_may_open_the_nodes_gets_no_group(user: str) -> None:
    assert groups_needed(identify(user, PASSWD), NODE, ()) == ()


def test_a_group_that_was_typed_is_not_added_twice() -> None:
    assert groups_needed(identify("2000", PASSWD), NODE, (1000,)) == (1000,)


def test_nodes_for_everybody_need_no_group() -> None:
    assert groups_needed(identify("65534", PASSWD), nodes("/dev/davinci0", mode=0o666), ()) == ()


def test_nobody_gets_nothing_unasked() -> None:
    with pytest.raises(BadInput) as error:
        groups_needed(identify("65534", PASSWD), NODE, ())
    assert error.value.found == "user 65534 has no read and write access to /dev/davinci0: crw-rw---- 1000 1000"
    assert error.value.wanted == "root, uid 1000 or group 1000"
    assert error.value.do == "--group-add 1000"
    assert "chmod" not in str(error.value)
    assert groups_needed(identify("65534", PASSWD), NODE, (1000,)) == (1000,)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o620, 0o000])
def test_where_no_group_helps_the_user_is_refused(mode: int) -> None:
    with pytest.raises(BadInput, match="no read and write access") as error:
        groups_needed(identify("2000", PASSWD), nodes("/dev/davinci0", mode=mode), ())
    assert error.value.do == "--user root"


def test_the_owner_has_only_what_owners_have() -> None:
    with pytest.raises(BadInput):
        groups_needed(identify("1000", PASSWD), nodes("/dev/davinci0", mode=0o066), ())


def test_several_devices_need_an_entry_in_passwd() -> None:
    stranger = identify("1000", PASSWD)
    assert require_passwd_entry(stranger, 1) == ""
    with pytest.raises(BadInput, match="no entry for uid 1000") as error:
        require_passwd_entry(stranger, 2)
    assert "useradd --uid 1000" in error.value.wanted
    assert require_passwd_entry(identify("ann", PASSWD), 8) == ""
    assert require_passwd_entry(identify("root", None), 8) == ""
    assert "could not be seen" in require_passwd_entry(identify("1000", None), 2)


def test_a_workspace_must_be_a_folder_the_user_may_write_to(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    with pytest.raises(BadInput, match="no such folder") as error:
        require_writable(str(folder), 0, ())
    assert error.value.do == f"mkdir -p {folder}"
    with pytest.raises(BadInput, match="no such folder") as error:
        require_writable(str(folder), 54321, ())
    assert error.value.do == f"sudo install -d -o 54321 {folder}"
    folder.touch()
    with pytest.raises(BadInput, match="that is no folder"):
        require_writable(str(folder), 0, ())
    folder.unlink()
    folder.mkdir()
    found = folder.stat()
    folder.chmod(0o750)
    require_writable(str(folder), 0, ())
    require_writable(str(folder), found.st_uid, ())
    for groups in ((), (found.st_gid,)):
        with pytest.raises(BadInput, match="uid 54321 may not write") as error:
            require_writable(str(folder), 54321, groups)
        # The owner of a folder that is there, which others may use, is not to be changed.
        assert error.value.do == f"--workspace OTHER_FOLDER --mount {folder}:/models:ro"
    folder.chmod(0o770)
    require_writable(str(folder), 54321, (found.st_gid,))
    folder.chmod(0o777)
    require_writable(str(folder), 54321, ())
