"""Names: a pinned one stands for nothing but what the pins say, and stand-ins go to no registry but this machine's."""

import msgspec
import pytest

from ascend_images.errors import PublishRefused
from ascend_images.images.publish import CHANGED, SANDBOX, image_name, is_loopback, require_publishable, tag_suffix
from ascend_images.pins.platform import Arch
from tests.unit.images.mini import mini

PINNED = {"quay.io/ascend/mini:v0.23.0-910b-ubuntu22.04-py3.12"}


def test_what_the_pins_say_has_the_name_that_they_give() -> None:
    assert tag_suffix(mini(), sandbox=False, changed=False, pinned=PINNED) == ""
    assert image_name(mini(), "", Arch.ARM64) == "quay.io/ascend/mini:v0.23.0-910b-ubuntu22.04-py3.12-aarch64"
    require_publishable(mini(), "")


def test_stand_ins_are_told_by_their_tag_changed_or_not() -> None:
    for changed in (False, True):
        assert tag_suffix(mini(), sandbox=True, changed=changed, pinned=PINNED) == SANDBOX
    assert image_name(mini(), SANDBOX, Arch.AMD64).endswith("-py3.12-sandbox-x86_64")


def test_what_is_changed_gets_another_name_only_where_its_own_is_a_pinned_one() -> None:
    assert tag_suffix(mini(), sandbox=False, changed=True, pinned=PINNED) == CHANGED
    assert tag_suffix(mini(tag="mine"), sandbox=False, changed=True, pinned=PINNED) == ""
    assert tag_suffix(mini(repository="r.example/x"), sandbox=False, changed=True, pinned=PINNED) == ""


def test_what_is_changed_is_not_pushed_before_it_has_a_name_of_its_own() -> None:
    with pytest.raises(PublishRefused, match=r"the name of what versions\.toml says") as error:
        require_publishable(mini(), CHANGED)
    assert error.value.exit_code == 7
    assert error.value.do == '--set "tag={vllm}-{cann_tag}-{os}-py{python}-NAME", or --set repository=REGISTRY/NAME'


def test_what_is_not_committed_is_pushed_under_no_name() -> None:
    with pytest.raises(PublishRefused, match="the checkout of vllm, Megatron-LM holds more than its commit"):
        require_publishable(mini(), "", dirty=["vllm", "Megatron-LM"])
    require_publishable(mini(), "", dirty=[])


@pytest.mark.parametrize(
    ("repository", "own"),
    [
        ("localhost/x", True),
        ("localhost:5000/a/b", True),
        ("127.0.0.1:5000/x", True),
        ("127.9.9.9/x", True),
        ("[::1]:5000/x", True),
        ("quay.io/ascend/ms-swift", False),
        ("library/localhost", False),
        ("localhost.example.com/x", False),
        ("127.0.0.1.example.com/x", False),
        ("128.0.0.1:5000/x", False),
        ("10.0.0.1:5000/x", False),
        ("[2001:db8::1]:5000/x", False),
        ("ascend/x", False),
    ],
)
def test_stand_ins_are_pushed_to_this_machine_alone(repository: str, own: bool) -> None:
    assert is_loopback(repository) is own
    variant = msgspec.structs.replace(mini(), repository=repository)
    if own:
        require_publishable(variant, SANDBOX)
        return
    with pytest.raises(PublishRefused, match="stand-ins") as error:
        require_publishable(variant, SANDBOX)
    assert repository in error.value.found
    assert error.value.do == "--set repository=localhost:5000/NAME"
