"""The second engine's parts that need no engine: its network, its rules, its command, what it cannot do without."""

import ipaddress
import json
import os
import tomllib
from pathlib import Path

import pytest

from ascend_images.errors import MissingTool
from ascend_images.sandbox import second_engine
from ascend_images.sandbox.second_engine import (
    containerd_config,
    dockerd_command,
    forwarding,
    free_network,
    mounted_below,
    rule,
)


def test_a_network_is_taken_that_no_address_and_no_route_is_in() -> None:
    address = json.dumps([{"addr_info": [{"local": "10.213.86.7", "prefixlen": 16}, {"family": "inet"}]}])
    route = json.dumps([{"dst": "default"}, {"dst": "10.214.0.0/15"}, {"dst": "nonsense"}])
    assert free_network(f"{address}\n{route}") == ipaddress.IPv4Network("10.216.86.0/24")


def test_a_machine_on_which_all_are_taken_has_no_second_engine() -> None:
    with pytest.raises(MissingTool, match=r"all of 10\.213\.86\.0/24 to 10\.244\.86\.0/24 are in use"):
        free_network(json.dumps([{"dst": "10.128.0.0/9"}]))


def test_every_rule_is_removed_by_the_words_that_made_it_and_names_the_bridge() -> None:
    rules = forwarding("br", ipaddress.IPv4Network("10.213.86.0/24"))
    for words in rules:
        made, removed = rule("-A", words), rule("-D", words)
        assert [word for word in made if word != "-A"] == [word for word in removed if word != "-D"]
        assert "ascend-images br" in made
        assert made[:3] == ["iptables", "--wait", "-t"]


def test_the_engine_keeps_to_its_own_and_is_never_without_a_bridge() -> None:
    command = dockerd_command(Path("/data"), Path("/run/x"), "br")
    assert "--bridge=none" not in command
    assert command[command.index("--bridge") + 1] == "br"
    assert "--iptables=false" in command
    places = {command[command.index(word) + 1] for word in ("--data-root", "--exec-root", "--pidfile", "--containerd")}
    assert all(place.startswith(("/data/", "/run/x/")) for place in places)


def test_containerds_configuration_is_toml_with_its_own_folders() -> None:
    said = tomllib.loads(containerd_config(Path('/da"ta'), Path("/run/x"), "/run/x/containerd.sock"))
    assert (said["root"], said["state"]) == ('/da"ta/containerd', "/run/x/containerd")


def test_what_is_mounted_below_a_folder_is_told_the_deepest_first() -> None:
    mounts = "a /s/data x\nb /s/data/in\\040side x\nc /s/data2 x\nd / x\nbroken\n"
    assert mounted_below(Path("/s/data"), mounts) == ["/s/data/in side", "/s/data"]


def test_another_user_than_root_is_told_the_other_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingTool, match="this user is not root") as caught, second_engine.second_engine():
        pass
    assert "--one-engine" in caught.value.do


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(second_engine, "_PATH", str(tmp_path))
    with pytest.raises(MissingTool, match="this machine has no dockerd, containerd, runc, iptables, ip"):
        second_engine.second_engine().__enter__()


@pytest.mark.subprocess
def test_a_program_that_fails_is_told_with_what_it_said() -> None:
    with pytest.raises(MissingTool, match="no such thing"):
        second_engine.call(["sh", "-c", "echo no such thing >&2; exit 1"])


@pytest.mark.subprocess
def test_a_daemon_that_ends_at_once_is_told_with_its_last_lines(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo disk full; exit 1"]
    daemon = second_engine._process(command, tmp_path / "log", tmp_path / "socket")
    with pytest.raises(MissingTool, match=r"a second sh did not come up\. Its last lines:\ndisk full"):
        daemon.__enter__()
