"""Bills of materials: whole documents, what every one of them holds, and that others' validators take them."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from spdx_tools.spdx.parser.jsonlikedict.json_like_dict_parser import JsonLikeDictParser
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from ascend_images.errors import BadInput
from ascend_images.images.record import LocalRecord, Record
from ascend_images.pins.lockfile import LockedPackage, LockFile, file_name
from ascend_images.pins.model import Patch
from ascend_images.pins.platform import Arch
from ascend_images.pins.resolve import resolve_all
from ascend_images.pins.variant import Checkout, RunFile, Variant
from ascend_images.pins.versions_lock import LockedRef, Submodule, VersionsLock
from ascend_images.sbom.bill import bill_of
from ascend_images.sbom.component import Bill, Kind
from ascend_images.sbom.cyclonedx import cyclonedx
from ascend_images.sbom.spdx import spdx
from tests.publish_kit import EPOCH, ROOT, image, pins, record, variant

GIT = "https://github.com/Example/Engine"
COMMIT = "a" * 40
LOCK = LockFile(
    variant="a2",
    arch=Arch.AMD64,
    python="3.12",
    inputs="",
    sdists=("from-source",),
    packages=(
        LockedPackage("from-source", "1.0", ("sha256:" + "1" * 64,)),
        LockedPackage("numpy", "1.26.4", ("sha256:" + "2" * 64,)),
        LockedPackage("torch", "2.10.0+cpu", ()),
        LockedPackage("two-files", "3.0", ("sha256:" + "3" * 64, "sha256:" + "4" * 64)),
    ),
)
LEARNED = VersionsLock(
    git=(
        LockedRef(
            repository=GIT,
            ref="v1.2",
            kind="tag",
            commit=COMMIT,
            learned=date(2026, 11, 30),
            how="ls-remote",
            submodules=(Submodule(path="csrc/part", url="https://git.example.org/x/part.git", commit="b" * 40),),
        ),
    )
)
SOURCE = Checkout(
    name="Engine",
    git=GIT,
    ref="v1.2",
    commit=COMMIT,
    path="/engine",
    module="engine",
    distribution="Engine_X",
    version="1.2",
    local_version="empty",
    submodules=True,
)
TOOL = msgspec.structs.replace(SOURCE, name="Tool", git="https://git.example.org/t", commit="", distribution="tool")
SYSTEM = {"bash": "5.1-6ubuntu1.1", "libc6": "2.35-0ubuntu3.8", "libc6:i386": "2.35-0ubuntu3.8", "perl": "1:5.34"}


def small(**changed: Any) -> Variant:
    """Return a variant that stays as it is whatever becomes of versions.toml."""
    values: dict[str, Any] = {
        "tag": "v1.2-cann9.1.0-910b-ubuntu22.04-py3.12",
        "stack": "engine",
        "cann": "9.1.0",
        "base_cann": "9.1.0",
        "base_image": "registry.invalid/ascend/cann:9.1.0-910b-ubuntu22.04-py3.12",
        "base_digest": "sha256:" + "c" * 64,
        "os": "ubuntu22.04",
        "os_family": "ubuntu",
        "python": "3.12",
        "python_home": "/usr/local/python3.12.13",
        "packages": {"numpy": "1.26.4", "torch": "2.10.0"},
        "sources": (SOURCE, TOOL),
        "runs": (),
        "patches": (
            Patch(distribution="numpy", file="numpy/x.py", find="a", replace="b", count=1, reason="it is wrong"),
        ),
    }
    return variant("a2", **{**values, **changed})


def made(of: Variant | None = None, /, arch: Arch = Arch.AMD64, **changed: Any) -> Record:
    of = of or small()
    return record(of, image(arch), **{"base": of.base_reference, "system": SYSTEM, **changed})


def bill(of: Variant | None = None, /, **changed: Any) -> Bill:
    return bill_of(made(of, **changed), LOCK, LEARNED)


def named(of: Bill, name: str, kind: Kind | None = None) -> Any:
    (found,) = (one for one in of.all_parts() if one.name == name and kind in (None, one.kind))
    return found


def faults(document: bytes) -> list[str]:
    """Return what the SPDX project's own library finds wrong with a document."""
    parsed = JsonLikeDictParser().parse(json.loads(document))
    return [message.validation_message for message in validate_full_spdx_document(parsed)]


@pytest.mark.parametrize(("form", "ending"), [(spdx, "spdx.json"), (cyclonedx, "cdx.json")])
def test_the_whole_document(golden: Callable[[str, str], None], form: Callable[[Bill], bytes], ending: str) -> None:
    golden(f"sbom/small.{ending}", form(bill()).decode())


def test_others_validators_take_them() -> None:
    assert faults(spdx(bill())) == []
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(cyclonedx(bill()).decode()) is None


def test_a_validator_that_takes_anything_would_show_nothing() -> None:
    broken = spdx(bill()).replace(b'"SPDXRef-base-image"', b'"SPDXRef-nothing"', 1)
    assert faults(broken)
    broken = cyclonedx(bill()).replace(b'"library"', b'"a book"', 1)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(broken.decode()) is not None


@cache
def committed() -> list[tuple[Variant, Arch, LockFile]]:
    return [
        (one, arch, LockFile.load(ROOT / "locks" / file_name(one.name, arch)))
        for one in resolve_all(pins(), allow_broken=True)
        for arch in one.platforms
        if (ROOT / "locks" / file_name(one.name, arch)).is_file()
    ]


def test_every_locked_package_is_there_once_and_identifiers_are_one_components_each() -> None:
    assert committed()
    for of, arch, lock in committed():
        whole = bill_of(made(of, arch), lock, pins().locked)
        packages = Counter((one.name, one.version) for one in whole.parts if one.kind is Kind.PACKAGE)
        assert packages == Counter((one.name, one.version) for one in lock.packages)
        sources = [one.name for one in whole.parts if one.kind is Kind.SOURCE]
        assert sources == [source.name for source in of.sources]
        document = json.loads(spdx(whole))
        identifiers = [one["SPDXID"] for one in document["packages"]]
        assert len(identifiers) == len(set(identifiers))
        assert {one["relatedSpdxElement"] for one in document["relationships"]} == set(identifiers)
        references = [one.key for one in whole.all_parts()]
        assert len(references) == len(set(references))
        for one in whole.all_parts():
            assert str(PackageURL.from_string(one.purl)) == one.purl


def test_a_whole_real_set_is_valid() -> None:
    of, arch, lock = committed()[0]
    whole = bill_of(made(of, arch), lock, pins().locked)
    assert faults(spdx(whole)) == []
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(cyclonedx(whole).decode()) is None


@pytest.mark.parametrize("form", [spdx, cyclonedx])
def test_the_same_build_gives_the_same_bytes_and_another_others(form: Callable[[Bill], bytes]) -> None:
    assert form(bill()) == form(bill(seconds=9.0, bytes=7, builder="other"))
    documents = {form(bill()), form(bill(epoch=EPOCH + 1)), form(bill(small(python_home="/usr/local/python3.12.1")))}
    assert len(documents) == 3
    key = "documentNamespace" if form is spdx else "serialNumber"
    assert len({json.loads(one)[key] for one in documents}) == 3


def test_a_package_of_an_index_of_its_own_says_so() -> None:
    torch = PackageURL.from_string(named(bill(), "torch").purl)
    of = small()
    assert torch.version == "2.10.0+cpu"
    assert torch.qualifiers == {"repository_url": of.indexes["torch-cpu"].url}


def test_a_release_that_is_laid_over_another() -> None:
    run = RunFile(part="toolkit", arch=Arch.AMD64, url="https://cann.example.org/t.run", file="t.run", sha256="d" * 64)
    other = msgspec.structs.replace(run, part="ops", sha256="")
    foreign = msgspec.structs.replace(run, arch=Arch.ARM64)
    whole = bill(small(cann="9.2.0", runs=(run, other, foreign)))
    cann = [one for one in whole.parts if one.kind is Kind.CANN]
    assert [(one.name, one.version, one.sha256) for one in cann] == [
        ("CANN", "9.1.0", ""),
        ("CANN toolkit", "9.2.0", "d" * 64),
        ("CANN ops", "9.2.0", ""),
    ]
    assert cann[2].note == "no checksum is known"
    assert faults(spdx(whole)) == []


def test_a_local_checkout_says_its_commit_and_not_where_it_lay() -> None:
    whole = bill(local={"Engine": LocalRecord("/home/somebody/engine", "e" * 40, True)})
    source = named(whole, "Engine")
    assert (source.version, source.purl, source.place) == ("e" * 40, "", "")
    assert source.note == "a local checkout stood in for it; with changes that are in no commit"
    assert [one.name for one in source.parts] == ["engine-x"]
    assert b"somebody" not in spdx(whole)


def test_packages_of_openeuler() -> None:
    system = {"bash": "5.1-1.oe2403", "gpg-pubkey": "1-1, 2-2"}
    whole = bill(small(os="openeuler24.03", os_family="openeuler"), system=system)
    purls = [one.purl for one in whole.parts if one.kind is Kind.SYSTEM]
    assert purls == [
        "pkg:rpm/openeuler/bash@5.1-1.oe2403?distro=openeuler-24.03",
        "pkg:rpm/openeuler/gpg-pubkey@1-1?distro=openeuler-24.03",
        "pkg:rpm/openeuler/gpg-pubkey@2-2?distro=openeuler-24.03",
    ]
    assert faults(spdx(whole)) == []


def test_what_whoever_reads_it_must_know() -> None:
    sandbox = f"{small().tag}-sandbox"
    whole = bill(tag=sandbox, unlocked=True, not_locked=("base: no digest",), system=None, base="/a/folder")
    assert "Made of stand-ins" in whole.notes[0]
    assert "--unlocked" in whole.notes[1]
    assert whole.notes[2:4] == ("Not locked: base: no digest", "The operating system's packages could not be read.")
    assert (whole.base.name, whole.base.note) == (small().base_image, "a folder stood in for it")
    assert all(one.purl == "" for one in bill(tag=sandbox).parts if one.kind is Kind.SYSTEM)


def test_a_record_of_another_time(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no variant of today") as raised:
        bill_of(msgspec.structs.replace(made(), resolved={"name": 3}), LOCK, LEARNED)
    assert raised.value.do == "invoke build --variant a2 --arch amd64"
