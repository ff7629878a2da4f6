import json
import re

from ascend_images.images.image_json import entrypoint, image_document, image_json, pins_digest
from ascend_images.pins.model import Decision
from tests.unit.images.mini import COMMIT, mini, source

KEYS = """schema variant aliases stack experimental release hardware chip device_type soc_version cann base_cann
cann_home cann_scripts base_image os python python_home repository tag platforms packages sources checks exclude
no_dependencies env entrypoint workdir runtime accept relax indexes patches"""
SOURCE_KEYS = "name git ref commit path module distribution version install submodules compiles checks"


def test_it_holds_every_pin_in_a_fixed_order() -> None:
    assert list(image_document(mini())) == KEYS.split()


def test_x86_64_has_the_cpu_build_of_torch_and_aarch64_the_plain_one() -> None:
    packages = image_document(mini())["packages"]
    assert packages["amd64"]["torch"] == "2.10.0+cpu"
    assert packages["arm64"]["torch"] == "2.10.0"
    assert packages["amd64"]["nvidia-modelopt"] == ">=0.37"


def test_a_source_says_what_of_it_is_in_the_image() -> None:
    vllm, ascend, _ = image_document(mini())["sources"]
    assert vllm["version"] == "0.23.0+empty"
    assert ascend["commit"] == COMMIT
    assert ascend["submodules"] is True
    assert list(vllm) == SOURCE_KEYS.split()


def test_the_text_is_json_and_the_same_each_time() -> None:
    variant = mini(runtime={"TASK_QUEUE_ENABLE": Decision(value="1", reason="faster")})
    assert json.loads(image_json(variant)) == image_document(variant)
    assert image_json(variant) == image_json(variant)
    assert image_json(variant).endswith("}\n")


def test_what_is_not_ascii_stays_readable() -> None:
    assert "昇腾" in image_json(mini(accept={"rule": "昇腾"}))


def test_the_digest_of_the_pins_tells_two_apart() -> None:
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", pins_digest(mini()))
    assert pins_digest(mini()) == pins_digest(mini())
    assert pins_digest(mini()) != pins_digest(mini(sources=(source(0, commit="1" * 40),)))


def test_the_entrypoint_sources_each_script_then_runs_the_command() -> None:
    shell, option, command, dashes = entrypoint(mini())
    assert (shell, option, dashes) == ("/bin/bash", "-c", "--")
    assert command.split(" && ") == [
        *(f"source {script}" for script in mini().cann_scripts),
        'export PYTHONPATH="${PYTHONPATH%:}"',
        'exec "$@"',
    ]


def test_the_digest_of_the_base_is_told_where_it_is_known() -> None:
    digest = f"sha256:{'d' * 64}"
    assert image_document(mini(base_digest=digest))["base_digest"] == digest
    assert "base_digest" not in image_document(mini())
    assert pins_digest(mini(base_digest=digest)) != pins_digest(mini())
