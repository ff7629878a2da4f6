"""docs/verify.md: how to verify, and every check with its question, its reason and how it is mended."""

import importlib
import inspect
import re
from collections.abc import Iterable
from itertools import groupby

from ascend_images.inside.answers import Check

#: Where `project#number` in a reason leads to, by project.
_PROJECTS = {
    "vllm-ascend": "vllm-project/vllm-ascend",
    "vllm": "vllm-project/vllm",
    "sglang": "sgl-project/sglang",
    "FlagTree": "flagos-ai/FlagTree",
    "verl": "verl-project/verl",
    "HAMi": "Project-HAMi/HAMi",
    "cann-container-image": "Ascend/cann-container-image",
    "gpustack": "gpustack/gpustack",
}
_REFERENCE = re.compile(rf"(?<![\w/-])({'|'.join(map(re.escape, _PROJECTS))})#(\d+)\b")

_INTRO = """\
# Verifying an image

<!-- Generated from the checks by `invoke docs`: change them, not this file. -->

Is an image what `versions.toml` says, and does it run on this machine? One line asks:

```
nox -s verify -- --variant a2
```

| to | type |
|---|---|
| verify the image of a variant | `nox -s verify -- --variant a2` |
| verify any image, without pins | `nox -s verify -- --image quay.io/ascend/vllm-ascend:v0.23.0` |
| insist on the NPU checks | `nox -s verify -- --variant a2 --require-npu` |
| give it two NPUs only | `nox -s verify -- --variant a2 --devices 0,1` |
| let vLLM generate from a local model | `nox -s verify -- --variant a2 --model /models/Qwen3-0.6B` |
| verify on another machine's engine | `nox -s verify -- --variant a2 --host ssh://user@atlas` |
| choose where the reports go | `nox -s verify -- --variant a2 --report-dir reports` |

An image of this project checks itself too, with nothing but Docker:

```
docker run --rm IMAGE python3 /opt/ascend-images/check.py
```

With the devices and the driver mounted, `--npu` asks the checks that need an NPU as well. `invoke run --print` prints
the command for a host's own devices; with one chip of an Atlas A2 host it is:

```
docker run --rm \\
  --device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc \\
  -v /usr/local/Ascend/driver/lib64:/usr/local/Ascend/driver/lib64:ro \\
  -v /usr/local/Ascend/driver/version.info:/usr/local/Ascend/driver/version.info:ro \\
  -v /usr/local/dcmi:/usr/local/dcmi:ro -v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi:ro \\
  -v /etc/ascend_install.info:/etc/ascend_install.info:ro \\
  IMAGE python3 /opt/ascend-images/check.py --npu
```

## Answers

- **pass**: it was looked at, and it is right.
- **fail**: it was looked at, and it is wrong: what was found, what was wanted, and the next command to type.
- **unknown**: it could not be told, and why. It is never counted as a pass.
- **not run**: the question does not apply, needs an NPU, or hangs on another failure, which it names: one cause gives
  one finding.

Nothing but a fail is an error: `nox` then ends with 1, `check.py` with 5. With `--require-npu`, NPU checks that could
not run fail.

## Reports

The terminal shows failures first. The same goes to the report directory as JSON (with all facts), as JUnit XML, as
Markdown (appended to `$GITHUB_STEP_SUMMARY` where that is set), and as one HTML page over all images verified there.
Each names the image's digest, its platform, the pins and the host.
"""


def document(checks: Iterable[Check]) -> str:
    """Return docs/verify.md for checks in the order in which they are asked, grouped by the module they stand in."""
    groups = [(module, list(members)) for module, members in groupby(checks, lambda check: check.ask.__module__)]
    contents, sections = [], []
    for module, members in groups:
        name, what = _group(module)
        contents.append(f"- {name}: " + ", ".join(f"[{check.id}](#{check.id})" for check in members))
        sections.append(f"## {name}\n\n{what}\n")
        sections += [_section(check) for check in members]
    return "\n".join([_INTRO, "## Checks\n", *contents, "", *sections])


def _group(module: str) -> tuple[str, str]:
    """Return the name of a module's checks, and what its first line says of them."""
    first = (inspect.getdoc(importlib.import_module(module)) or "").partition("\n")[0]
    what = first.removeprefix("Checks: ")
    name = module.rpartition(".")[2].replace("_", " ")
    return "CANN" if name == "cann" else name.capitalize(), _prose(what[:1].upper() + what[1:])


def _section(check: Check) -> str:
    parts = (f"### {check.id}", f"**{_prose(check.question)}**", _prose(check.why), f"*Mended:* {_prose(check.mend)}")
    return "\n\n".join(parts) + "\n"


def _prose(text: str) -> str:
    """Return a sentence as Markdown: references as links, signs that would be markup escaped, code left alone."""
    pieces = text.split("`")
    for place in range(0, len(pieces), 2):
        plain = re.sub(r"([*<\[\]]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))", r"\\\1", pieces[place])
        pieces[place] = _REFERENCE.sub(_link, plain)
    return "`".join(pieces)


def _link(reference: re.Match[str]) -> str:
    return f"[{reference[0]}](https://github.com/{_PROJECTS[reference[1]]}/issues/{reference[2]})"
