"""Rules of torch, torch_npu and the indexes that serve their builds."""

from collections.abc import Iterator
from functools import lru_cache

from ascend_images.pins.bindings import range_served
from ascend_images.pins.compat import base_version, fits, version
from ascend_images.pins.platform import Arch
from ascend_images.pins.rules.rule import Asked, Problem, Rule, release_of
from ascend_images.pins.variant import TORCH_TRIO


def _torch_of_torch_npu(asked: Asked) -> Iterator[Problem]:
    torch, torch_npu = asked.package("torch"), asked.package("torch-npu")
    if not torch or not torch_npu:
        return
    for name, pin in (("torch", torch), ("torch_npu", torch_npu)):
        if version(pin) is None:
            yield Problem(f"{name} {pin} is a range: whether torch and torch_npu fit is not known", unknown=True)
            return
    if base_version(torch) != base_version(torch_npu):
        yield Problem(f"torch {torch} with torch_npu {torch_npu}", f"torch {base_version(torch_npu)}")


def _torch_companions(asked: Asked) -> Iterator[Problem]:
    torch = base_version(asked.package("torch"))
    if not torch:
        return
    for name in TORCH_TRIO[1:]:
        if not asked.package(name):
            yield Problem(f"{name} is not pinned beside torch {torch}", f"a pin of {name}")
    row = asked.tables.torch.get(torch)
    if row is None:
        yield Problem(f"which torchvision and torchaudio go with torch {torch} is not known", unknown=True)
        return
    for name, wanted in (("torchvision", row.torchvision), ("torchaudio", row.torchaudio)):
        found = asked.package(name)
        if found and wanted and base_version(found) != wanted:
            yield Problem(f"{name} {found} with torch {torch}", f"{name} {wanted}")


def _cann_of_torch_npu(asked: Asked) -> Iterator[Problem]:
    torch_npu = asked.package("torch-npu")
    if not torch_npu:
        return
    release = asked.tables.torch_npu.get(torch_npu)
    if release is None:
        yield Problem(f"which CANN torch_npu {torch_npu} is built for is not known", unknown=True)
    elif not _same_release_or_series(release, asked.variant.cann):
        fitting = [
            npu for npu, cann in asked.tables.torch_npu.items() if _same_release_or_series(cann, asked.variant.cann)
        ]
        same_torch = [npu for npu in fitting if base_version(npu) == base_version(torch_npu)]
        yield Problem(
            f"torch_npu {torch_npu} is built for CANN {release}, and this is CANN {asked.variant.cann}",
            f"torch_npu {' or '.join(same_torch or fitting)}" if fitting else f"CANN {release}",
        )


def _same_release_or_series(tabled: str, cann: str) -> bool:
    """Return whether a release answers a table's entry: X.Y.0 there stands for its series, another for itself."""
    one, other = release_of(tabled), release_of(cann)
    return one.series == other.series if tabled.endswith(".0") else one == other


def _index_of_cpu_torch(asked: Asked) -> Iterator[Problem]:
    trio = [name for name in TORCH_TRIO if asked.package(name)]
    if Arch.AMD64 in asked.variant.platforms:
        missing = [f"{name} {asked.package(name)}" for name in trio if not _index_of(asked, name, Arch.AMD64)]
        if missing:
            yield Problem(
                f"amd64 takes {', '.join(_with_cpu(pin) for pin in missing)}, and no index serves "
                + ("it" if len(missing) == 1 else "them"),
                f"an [index.…] that serves {' and '.join(pin.split()[0] for pin in missing)} on x86_64, "
                'or platforms = ["arm64"]',
            )
    torch = version(asked.package("torch"))
    if (
        Arch.ARM64 in asked.variant.platforms
        and torch is not None
        and torch.release >= _CUDA_ON_ARM64_FROM
        and not _index_of(asked, "torch", Arch.ARM64)
    ):
        yield Problem(
            f"arm64 takes torch {torch} from the default index, where it is a CUDA build from 2.11 on",
            'an [index.…] of CPU builds that serves torch on aarch64, or platforms = ["amd64"]',
        )


#: Up to 2.10 the default index's torch for aarch64 is a CPU build of 100 to 140 MB, from here on a CUDA one of 400 MB.
_CUDA_ON_ARM64_FROM = (2, 11)


def _with_cpu(pin: str) -> str:
    return pin if "+" in pin else f"{pin}+cpu"


def _index_of_triton_ascend(asked: Asked) -> Iterator[Problem]:
    pin, variant = asked.package("triton-ascend"), asked.variant
    parsed = version(pin)
    in_default = parsed is not None and parsed.release < _TRITON_ASCEND_ELSEWHERE_FROM
    if not pin or (in_default and fits(f"{variant.python}.0", "<3.12")):
        return
    missing = [arch for arch in variant.platforms if not _index_of(asked, "triton-ascend", arch)]
    if missing and parsed is None:
        yield Problem(
            f"triton-ascend {pin} is a range, and no index serves it on {' and '.join(missing)}: whether the default "
            "one has what is locked is not known",
            "one version, or an [index.…] that serves triton-ascend",
            unknown=True,
        )
    elif missing:
        yield Problem(
            f"triton-ascend {pin} for Python {variant.python} on {' and '.join(missing)}: no index serves it, and the "
            "default one has it up to 3.2.0 and for Python below 3.12 only",
            "an [index.…] that serves triton-ascend",
        )


_TRITON_ASCEND_ELSEWHERE_FROM = (3, 2, 1)


def _index_of(asked: Asked, name: str, arch: Arch) -> bool:
    """Return whether an index of the file serves a pinned package there."""
    pin = asked.package(name)
    return any(_serves(index.serves, name, pin, asked.variant.python, arch) for index in asked.variant.indexes.values())


@lru_cache(maxsize=1024)
def _serves(serves: tuple[str, ...], name: str, pin: str, python: str, arch: Arch) -> bool:
    ranges = (range_served(text, name, python, arch) for text in serves)
    return any(found is not None and (version(pin) is None or fits(pin, str(found))) for found in ranges)


RULES = (
    Rule("torch-npu-torch", "a torch_npu loads into the torch of its own version alone", _torch_of_torch_npu),
    Rule("torch-trio", "torchvision and torchaudio are built against one torch", _torch_companions),
    Rule("torch-npu-cann", "torch_npu's post number selects the CANN release", _cann_of_torch_npu),
    Rule("torch-index", "on x86_64 torch_npu asks for torch's CPU build", _index_of_cpu_torch),
    Rule(
        "triton-ascend-index",
        "the default index has triton-ascend up to 3.2.0 and Python 3.11",
        _index_of_triton_ascend,
    ),
)
