"""Tags and references of images: both ways, and everything that is refused."""

import re
import string
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ascend_images.errors import BadInput
from ascend_images.pins.cann_version import ReleaseVersion
from ascend_images.pins.platform import Arch
from ascend_images.pins.tags import (
    BaseTag,
    ImageRef,
    OsFamily,
    arch_tag,
    check_tag_value,
    fold_tag,
    placeholders,
    render_tag,
    split_os,
    unique_tags,
)

PUBLISHED = (Path(__file__).parents[2] / "data" / "base-image-tags.txt").read_text(encoding="ascii").splitlines()
SHA256 = "sha256:" + "0123456789abcdef" * 4
MS_SWIFT = "{ms-swift}-cann{cann}-torch_npu{torch_npu}-{cann_tag}-{os}-py{python}"
UBUNTU = {"vllm_ascend": "v0.18.0rc1", "chip": "910b", "os": "ubuntu22.04"}
OPENEULER = UBUNTU | {"os": "openeuler24.03"}
VERL = "verl-{cann}-{cann_tag}-{os}-py{python}-qwen3-5"


class TestBaseTag:
    def test_the_list_of_published_tags_is_whole(self):
        assert len(PUBLISHED) == len(set(PUBLISHED)) == 300

    @pytest.mark.parametrize("text", PUBLISHED)
    def test_each_published_tag_comes_back_as_it_was(self, text):
        tag = BaseTag.parse(text)
        assert str(tag) == text
        assert BaseTag.parse(str(tag)) == tag

    def test_the_parts_of_all_published_tags_are_those_that_exist(self):
        tags = [BaseTag.parse(text) for text in PUBLISHED]
        assert {tag.chip for tag in tags} == {"310p", "910", "910b", "950", "a3"}
        assert {tag.os for tag in tags} == {"ubuntu22.04", "ubuntu24.04", "openeuler22.03", "openeuler24.03"}
        assert {tag.python for tag in tags} == {"3.10", "3.11", "3.12"}
        assert {tag.release.series for tag in tags} == {"8.1", "8.2", "8.3", "8.5", "9.0", "9.1"}
        assert min(tag.release for tag in tags if tag.devel) == ReleaseVersion.parse("9.0.0")
        assert min(tag.release for tag in tags if tag.chip == "950") == ReleaseVersion.parse("9.0.0")

    @pytest.mark.parametrize(
        ("text", "tag"),
        [
            ("9.1.0-910b-ubuntu22.04-py3.12", BaseTag("9.1.0", "910b", "ubuntu22.04", "3.12")),
            (
                "9.1.0-beta.3-a3-openeuler24.03-py3.12-devel",
                BaseTag("9.1.0-beta.3", "a3", "openeuler24.03", "3.12", devel=True),
            ),
            (
                "8.1.RC1.alpha002-910b-ubuntu24.04-py3.10",
                BaseTag("8.1.RC1.alpha002", "910b", "ubuntu24.04", "3.10"),
            ),
            ("8.3.rc2-910-openeuler24.03-py3.11", BaseTag("8.3.rc2", "910", "openeuler24.03", "3.11")),
        ],
    )
    def test_a_tag_is_split_from_the_right(self, text, tag):
        assert BaseTag.parse(text) == tag

    def test_the_parts_are_of_use_by_themselves(self):
        tag = BaseTag.parse("8.3.rc2-a3-openeuler24.03-py3.11")
        assert tag.release == ReleaseVersion.parse("8.3.RC2")
        assert (tag.os_family, tag.os_version) == (OsFamily.OPENEULER, "24.03")

    @pytest.mark.parametrize("alias", ["", "latest", "main", "8.2.rc1", "9.1.0", "9.1.0-beta.3"])
    def test_an_alias_is_refused_since_it_names_nothing(self, alias):
        with pytest.raises(BadInput, match="alias or no tag: it does not name") as error:
            BaseTag.parse(alias)
        assert repr(alias) in error.value.found
        assert "9.1.0-910b-ubuntu22.04-py3.12" in error.value.wanted

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("9.1.0-910b-ubuntu22.04-3.12", "'3.12' is not its Python part"),
            ("9.1.0-910b-ubuntu22.04-py3", "'py3' is not its Python part"),
            ("9.1.0-910b-ubuntu22.04-py2.7", "'py2.7' is not its Python part"),
            ("9.1.0-910b-ubuntu22.04-py3.012", "'py3.012' is not its Python part"),
            ("9.1.0-910b-ubuntu22.04-py3.12-devel-devel", "'devel' is not its Python part"),
            ("9.1.0-910b-ubuntu22.04-devel-py3.12", "'devel' is not its operating system part"),
            ("9.1.0-910b-debian12-py3.12", "'debian12' is not its operating system part"),
            ("9.1.0-910b-debian12.04-py3.12", "'debian12.04' is not its operating system part"),
            ("9.1.0-910b-ubuntu-py3.12", "'ubuntu' is not its operating system part"),
            ("9.1.0-910b-manylinux_2_28-py3.12", "'manylinux_2_28' is not its operating system part"),
            ("9.1.0-910b-Ubuntu22.04-py3.12", "'Ubuntu22.04' is not its operating system part"),
            ("9.1.0-b200-ubuntu22.04-py3.12", "'b200' is not its chip part"),
            ("9.1.0-A3-ubuntu22.04-py3.12", "'A3' is not its chip part"),
            ("9.1.0--ubuntu22.04-py3.12", "'' is not its chip part"),
            ("9.1.0-ascend910b1-ubuntu22.04-py3.12", "'ascend910b1' is not its chip part"),
            ("9.1-910b-ubuntu22.04-py3.12", "'9.1' is not its CANN part"),
            ("v9.1.0-910b-ubuntu22.04-py3.12", "'v9.1.0' is not its CANN part"),
            ("9.1.0-Atlas-a3-ubuntu22.04-py3.12", "'9.1.0-Atlas' is not its CANN part"),
            ("-910b-ubuntu22.04-py3.12", "'' is not its CANN part"),
            (" 9.1.0-910b-ubuntu22.04-py3.12", "' 9.1.0' is not its CANN part"),
            ("9.1.0-910b-ubuntu22.04-py3.12\n", "not its Python part"),
            ("910b-ubuntu22.04-py3.12", "lacks its part for CANN"),
            ("9.1.0-ubuntu22.04-py3.12", "lacks its part for chip"),
            ("9.1.0-910b-py3.12", "lacks its part for operating system"),
            ("9.1.0-910b-ubuntu22.04", "lacks its part for Python"),
            ("9.1.0-910b", "lacks its part for operating system and Python"),
        ],
    )
    def test_nonsense_is_refused_by_the_part_that_is_wrong(self, text, complaint):
        with pytest.raises(BadInput) as error:
            BaseTag.parse(text)
        assert complaint in error.value.found
        assert repr(text) in error.value.found
        assert error.value.wanted

    def test_where_only_the_case_is_wrong_the_lower_case_is_named(self):
        with pytest.raises(BadInput) as error:
            BaseTag.parse("9.1.0-A3-ubuntu22.04-py3.12")
        assert error.value.do == "write it in lower case: a3"

    def test_no_instance_holds_nonsense(self):
        with pytest.raises(BadInput, match="'a2' is not its operating system part"):
            BaseTag("9.1.0", "910b", "a2", "3.12")

    @given(
        st.sampled_from(["9.1.0", "8.3.RC2", "9.1.0-beta.3", "8.5.0.alpha002", "10.0.rc1", "9.1.1.2"]),
        st.from_regex(r"[0-9]{3}[a-z]?|a[0-9]", fullmatch=True),
        st.sampled_from(OsFamily),
        st.from_regex(r"[0-9]{2}\.[0-9]{2}", fullmatch=True),
        st.integers(0, 99),
        st.booleans(),
    )
    def test_every_tag_comes_back_as_its_parts(self, cann, chip, family, version, minor, devel):
        tag = BaseTag(cann, chip, f"{family}{version}", f"3.{minor}", devel)
        assert BaseTag.parse(str(tag)) == tag

    @given(st.one_of(st.text(), st.lists(st.sampled_from([*PUBLISHED[0], "-", "py", "-devel"])).map("".join)))
    def test_any_text_is_a_tag_or_bad_input(self, text):
        with suppress(BadInput):
            assert str(BaseTag.parse(text)) == text


class TestOs:
    def test_family_and_version_are_told_apart(self):
        assert split_os("ubuntu22.04") == (OsFamily.UBUNTU, "22.04")

    def test_an_unknown_system_is_refused_with_the_nearest_known_one(self):
        with pytest.raises(BadInput, match="unknown operating system 'ubunto22") as error:
            split_os("ubunto22.04")
        assert error.value.wanted == 'did you mean "ubuntu"?'

    @pytest.mark.parametrize("text", ["", "ubuntu", "22.04", "ubuntu22", "ubuntu-22.04", "openeuler24.03-lts"])
    def test_what_is_no_system_at_all_is_refused(self, text):
        with pytest.raises(BadInput, match="is not an operating system"):
            split_os(text)


class TestImageRef:
    @pytest.mark.parametrize(
        ("text", "registry", "repository", "tag", "digest"),
        [
            (
                "quay.io/ascend/cann:9.1.0-910b-ubuntu22.04-py3.12",
                "quay.io",
                "ascend/cann",
                "9.1.0-910b-ubuntu22.04-py3.12",
                None,
            ),
            ("host:5000/x/y:tag", "host:5000", "x/y", "tag", None),
            (f"name@{SHA256}", "", "name", None, SHA256),
            (f"name:tag@{SHA256}", "", "name", "tag", SHA256),
            ("name", "", "name", None, None),
            ("name:5000", "", "name", "5000", None),
            ("ascendai/cann:latest", "", "ascendai/cann", "latest", None),
            ("localhost/x", "localhost", "x", None, None),
            ("localhost:5000/x", "localhost:5000", "x", None, None),
            ("Host/x:Tag", "Host", "x", "Tag", None),
            ("127.0.0.1:5000/a/b/c:1", "127.0.0.1:5000", "a/b/c", "1", None),
            (f"[2001:db8::1]:5000/x:t@{SHA256}", "[2001:db8::1]:5000", "x", "t", SHA256),
            ("swr.cn-south-1.x.com/ascendhub/cann", "swr.cn-south-1.x.com", "ascendhub/cann", None, None),
            ("my_org/my__image--x.y:_1", "", "my_org/my__image--x.y", "_1", None),
            ("x@sha512:" + "0a" * 64, "", "x", None, "sha512:" + "0a" * 64),
            ("x:" + "t" * 128, "", "x", "t" * 128, None),
            ("r.io/" + "a/" * 127 + "b", "r.io", "a/" * 127 + "b", None, None),
        ],
    )
    def test_a_reference_is_split_as_docker_splits_it(self, text, registry, repository, tag, digest):
        ref = ImageRef.parse(text)
        assert (ref.registry, ref.repository, ref.tag, ref.digest) == (registry, repository, tag, digest)
        assert str(ref) == text
        assert ref.name == text.removesuffix(f"@{digest}").removesuffix(f":{tag}")

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("", "'' is not an image repository"),
            (":tag", "'' is not an image repository"),
            (f"@{SHA256}", "'' is not an image repository"),
            ("quay.io/", "'' is not an image repository"),
            ("quay.io/Ascend/cann:9.1.0", "'Ascend/cann' is not an image repository"),
            ("Uppercase:tag", "'Uppercase' is not an image repository"),
            ("a//b", "'a//b' is not an image repository"),
            ("a/b/", "'a/b/' is not an image repository"),
            ("/a", "'/a' is not an image repository"),
            ("a..b", "'a..b' is not an image repository"),
            ("a___b", "'a___b' is not an image repository"),
            ("-a", "'-a' is not an image repository"),
            (" a", "' a' is not an image repository"),
            ("a b", "'a b' is not an image repository"),
            ("caf\u00e9", "'caf\u00e9' is not an image repository"),
            ("[2001:db8::1]", "is not"),
            ("r.io/" + "a/" * 128 + "b", "has 257 characters"),
            ("0123456789abcdef" * 4, "is the id of an image"),
            ("https://quay.io/x", "is not a registry's address"),
            ("ho_st.io/x", "'ho_st.io' is not a registry's address"),
            ("-host.io/x", "'-host.io' is not a registry's address"),
            ("host:port/x", "'host:port' is not a registry's address"),
            ("localhost:99999/x", "'localhost:99999': there is no port 99999"),
            ("[fe80::1%eth0]:5000/x", "is not a registry's address"),
            ("a." * 140 + "io/x", "is not a registry's address"),
            ("x:", "'' is not a legal tag"),
            ("x:-1", "'-1' is not a legal tag"),
            ("x:.1", "'.1' is not a legal tag"),
            ("x:2.9.0+cpu", "'2.9.0+cpu' is not a legal tag"),
            ("x:a:b", "'a:b' is not a legal tag"),
            ("x:t\n", "is not a legal tag"),
            ("x:\u0661", "is not a legal tag"),
            ("x:" + "t" * 129, "has 129 characters"),
            ("x@", "'' is not an image digest"),
            ("x:t@", "'' is not an image digest"),
            ("x@latest", "'latest' is not an image digest"),
            ("x@sha256:abc", "'sha256:abc' is not an image digest"),
            ("x@" + SHA256.upper().replace("SHA", "sha"), "is not an image digest"),
            ("x@md5:" + "0" * 32, "is not an image digest"),
            (f"x@{SHA256}@{SHA256}", "is not an image digest"),
            (f"x@{SHA256}:t", "is not an image digest"),
        ],
    )
    def test_nonsense_is_refused_by_the_part_that_is_wrong(self, text, complaint):
        with pytest.raises(BadInput) as error:
            ImageRef.parse(text)
        assert complaint in error.value.found
        assert error.value.wanted

    def test_where_only_the_case_is_wrong_the_lower_case_is_named(self):
        with pytest.raises(BadInput) as error:
            ImageRef.parse("quay.io/Ascend/cann:9.1.0")
        assert error.value.do == "write it in lower case: ascend/cann"

    @pytest.mark.parametrize("text", ["quay.io/ascend/cann", "host:5000/cann"])
    def test_a_base_image_without_tag_and_digest_is_refused_with_what_to_write(self, text):
        with pytest.raises(BadInput, match="has no tag") as error:
            ImageRef.parse(text).require_tag()
        assert f"{text}:<tag>" in error.value.do

    @pytest.mark.parametrize("text", ["cann:9.1.0", f"cann@{SHA256}", f"cann:9.1.0@{SHA256}"])
    def test_a_base_image_with_tag_or_digest_is_taken(self, text):
        ref = ImageRef.parse(text)
        assert ref.require_tag() is ref

    def test_no_instance_holds_nonsense(self):
        with pytest.raises(BadInput, match="is not a legal tag"):
            ImageRef("quay.io", "ascend/cann", tag="a b")

    @given(
        st.sampled_from(["", "localhost", "h:1", "quay.io", "a-b.c-d.io:5000", "[::1]", "HOST"]),
        st.from_regex(r"[a-z0-9]+((\.|_|__|-{1,3})[a-z0-9]+){0,2}(/[a-z0-9]{1,3}){0,2}", fullmatch=True).filter(
            lambda text: len(text) < 200 and "." not in text.partition("/")[0] and not text.startswith("localhost")
        ),
        st.none() | st.text(alphabet=string.ascii_letters + string.digits + "_", min_size=1, max_size=128),
        st.sampled_from([None, SHA256, "sha512:" + "f" * 128]),
    )
    def test_every_reference_comes_back_as_its_parts(self, registry, repository, tag, digest):
        ref = ImageRef(registry, repository, tag, digest)
        assert ImageRef.parse(str(ref)) == ref

    @given(st.one_of(st.text(), st.text(alphabet="ab0./:@-_[]A"), st.text("ab/:").map(lambda t: f"{t}@{SHA256}")))
    @example("a" + "-a" * 3000 + "!")
    @example("a" * 100 + "-" * 100 + "!")
    @example("h" * 200 + "-" * 60 + ".!/x")
    def test_any_text_is_a_reference_or_bad_input(self, text):
        with suppress(BadInput):
            assert str(ImageRef.parse(text)) == text


class TestFolding:
    @pytest.mark.parametrize(
        ("text", "tag"),
        [
            ("9.1.0", "9.1.0"),
            ("8.3.RC2", "8.3.rc2"),
            ("2.9.0+cpu", "2.9.0-cpu"),
            ("releases/v0.18.0", "releases-v0.18.0"),
            ("_x", "_x"),
            ("a b:c\u00e9", "a-b-c-"),
            ("A" * 128, "a" * 128),
        ],
    )
    def test_what_a_tag_cannot_hold_becomes_a_hyphen(self, text, tag):
        assert fold_tag(text) == tag

    @pytest.mark.parametrize("text", ["", ".x", "-x", "+x", "/", "\u00e9"])
    def test_a_tag_that_would_begin_wrongly_is_not_legal(self, text):
        with pytest.raises(BadInput, match="makes no legal tag") as error:
            fold_tag(text)
        assert "first" in error.value.wanted

    def test_a_tag_of_more_than_128_characters_is_too_long(self):
        with pytest.raises(BadInput, match="is too long: 129 characters") as error:
            fold_tag("x" * 129)
        assert error.value.wanted == "at most 128"

    @given(st.text(max_size=140))
    def test_a_folded_tag_is_legal_and_folding_it_again_changes_nothing(self, text):
        with suppress(BadInput):
            tag = fold_tag(text)
            assert re.fullmatch(r"[a-z0-9_][a-z0-9_.-]{0,127}", tag)
            assert fold_tag(tag) == tag
            assert ImageRef.parse(f"x:{tag}").tag == tag

    @pytest.mark.parametrize("value", ["910b", "a3", "ubuntu22.04", "3.12", "-x", "ms_swift"])
    def test_a_value_that_is_legal_as_it_is_passes(self, value):
        check_tag_value("chip", value)

    @pytest.mark.parametrize(
        ("value", "illegal", "do"),
        [
            ("2.9.0+cpu", "not legal in a tag: +", ""),
            ("A3", "not legal in a tag: A", "write it in lower case: a3"),
            ("a/b c", "not legal in a tag:   /", ""),
            ("", "nothing to put in a tag", ""),
        ],
    )
    def test_a_value_that_would_have_to_be_folded_is_refused_where_it_is_checked(self, value, illegal, do):
        with pytest.raises(BadInput) as error:
            check_tag_value("chip", value)
        assert error.value.found == f"chip is {value!r}: {illegal}"
        assert error.value.do == do


class TestRendering:
    @pytest.mark.parametrize(
        ("template", "values", "arch", "tag"),
        [
            (
                MS_SWIFT,
                {"ms-swift": "main", "cann": "8.5.1", "torch_npu": "2.9.0.post2", "python": "3.11"}
                | {"cann_tag": "a3", "os": "ubuntu22.04"},
                Arch.ARM64,
                "main-cann8.5.1-torch_npu2.9.0.post2-a3-ubuntu22.04-py3.11-aarch64",
            ),
            (
                MS_SWIFT,
                {"ms-swift": "main", "cann": "9.0.0", "torch_npu": "2.9.0.post2", "python": "3.11"}
                | {"cann_tag": "910b", "os": "ubuntu22.04"},
                Arch.ARM64,
                "main-cann9.0.0-torch_npu2.9.0.post2-910b-ubuntu22.04-py3.11-aarch64",
            ),
            (
                MS_SWIFT,
                {"ms-swift": "v4.5.2", "cann": "9.1.0", "torch_npu": "2.10.0.post2", "python": "3.12"}
                | {"cann_tag": "a3", "os": "ubuntu22.04"},
                None,
                "v4.5.2-cann9.1.0-torch_npu2.10.0.post2-a3-ubuntu22.04-py3.12",
            ),
            (
                VERL,
                {"cann": "8.5.2", "cann_tag": "910b", "os": "ubuntu22.04", "python": "3.11"},
                None,
                "verl-8.5.2-910b-ubuntu22.04-py3.11-qwen3-5",
            ),
        ],
    )
    def test_the_published_tags_come_from_their_templates(self, template, values, arch, tag):
        rendered = render_tag(template, values)
        assert (rendered if arch is None else arch_tag(rendered, arch)) == tag

    def test_refs_and_versions_are_folded(self):
        values = {"verl": "Fix/Npu", "torch": "2.9.0+cpu", "cann": "8.3.RC2"}
        assert render_tag("{verl}-torch{torch}-cann{cann}", values) == "fix-npu-torch2.9.0-cpu-cann8.3.rc2"

    @pytest.mark.parametrize(("name", "value"), [("chip", "A3"), ("cann_tag", "910B"), ("os", "ubuntu22.04+x")])
    def test_words_for_hardware_and_os_are_refused_rather_than_folded(self, name, value):
        with pytest.raises(BadInput, match="not legal in a tag") as error:
            render_tag(f"x-{{{name}}}", {name: value})
        assert error.value.found.startswith(f"{name} is {value!r}")

    def test_which_values_are_not_folded_can_be_said(self):
        assert render_tag("x-{chip}", {"chip": "A3"}, exact=()) == "x-a3"
        with pytest.raises(BadInput, match=re.escape("torch is '2.9.0+cpu'")):
            render_tag("x-{torch}", {"torch": "2.9.0+cpu"}, exact={"torch"})

    def test_an_unknown_placeholder_is_refused_with_the_nearest_known_one(self):
        with pytest.raises(BadInput, match='unknown placeholder "ms_swift"') as error:
            render_tag("{ms_swift}-{os}", {"ms-swift": "main", "os": "ubuntu22.04"})
        assert error.value.wanted == 'did you mean "ms-swift"?'
        assert "{ms_swift}-{os}" in error.value.found

    @pytest.mark.parametrize("name", ["", "os!r", "os:>9", "os.upper", " os"])
    def test_a_placeholder_is_a_name_and_nothing_else(self, name):
        with pytest.raises(BadInput, match="unknown placeholder"):
            render_tag(f"x-{{{name}}}", {"os": "ubuntu22.04"})

    @pytest.mark.parametrize("template", ["{os", "os}", "{{os}}", "{a{os}}", "x-{os}-}", "{", "}{"])
    def test_unbalanced_braces_are_refused(self, template):
        for read in (placeholders, lambda text: render_tag(text, {"os": "ubuntu22.04"})):
            with pytest.raises(BadInput, match="brace") as error:
                read(template)
            assert repr(template) in error.value.found

    @pytest.mark.parametrize("template", ["Main-{os}", "a+{os}", "{os} x", "a/{os}"])
    def test_text_between_placeholders_is_refused_rather_than_folded(self, template):
        with pytest.raises(BadInput, match=r"the text of tag template .* not legal in a tag"):
            render_tag(template, {"os": "ubuntu22.04"})

    def test_an_empty_value_is_refused(self):
        with pytest.raises(BadInput, match=re.escape("{verl} stands for nothing")):
            render_tag("x-{verl}", {"verl": ""})

    def test_a_tag_that_begins_with_a_folded_character_is_not_legal(self):
        with pytest.raises(BadInput, match="makes no legal tag"):
            render_tag("{verl}-x", {"verl": "/main"})

    def test_a_tag_is_too_long_with_its_architecture_too(self):
        tag = render_tag("{verl}", {"verl": "x" * 121})
        assert arch_tag(tag[:-1], Arch.ARM64).endswith("-aarch64")
        with pytest.raises(BadInput, match="is too long: 129 characters"):
            arch_tag(tag, Arch.ARM64)
        with pytest.raises(BadInput, match="is too long"):
            render_tag("{verl}", {"verl": "x" * 129})

    def test_the_names_in_a_template_are_listed_in_order(self):
        assert placeholders(MS_SWIFT) == ("ms-swift", "cann", "torch_npu", "cann_tag", "os", "python")
        assert placeholders("none") == ()

    @given(st.text(alphabet="ab-_.{}+A"), st.dictionaries(st.text("ab", max_size=2), st.text(max_size=8)))
    def test_any_template_gives_a_legal_tag_or_bad_input(self, template, values):
        with suppress(BadInput):
            tag = render_tag(template, values)
            assert fold_tag(tag) == tag


class TestUniqueness:
    def test_two_variants_with_one_tag_are_refused_and_both_named(self):
        with pytest.raises(BadInput) as error:
            unique_tags([("a2", "x-910b"), ("a3", "x-a3"), ("a2-openeuler", "x-910b")])
        assert error.value.found == 'variants "a2" and "a2-openeuler" give the same tag x-910b'
        assert "{os}" in error.value.do
        assert "{cann_tag}" in error.value.do

    def test_the_placeholder_that_tells_them_apart_is_named(self):
        values = {"a2": UBUNTU, "a2-openeuler": OPENEULER}
        tags = [(variant, render_tag("{vllm_ascend}-{chip}", known)) for variant, known in values.items()]
        with pytest.raises(BadInput, match=re.escape("v0.18.0rc1-910b")) as error:
            unique_tags(tags, values)
        assert error.value.do == "add {os} to the tag template"

    def test_with_that_placeholder_the_tags_differ(self):
        values = {"a2": UBUNTU, "a2-openeuler": OPENEULER}
        tags = [(variant, render_tag("{vllm_ascend}-{chip}-{os}", known)) for variant, known in values.items()]
        assert unique_tags(tags, values) == {
            "v0.18.0rc1-910b-ubuntu22.04": "a2",
            "v0.18.0rc1-910b-openeuler24.03": "a2-openeuler",
        }

    def test_hardware_and_os_are_named_before_anything_else_that_differs(self):
        values = {"one": {"cann": "9.1.0", "cann_tag": "910b"}, "two": {"cann": "9.0.0", "cann_tag": "a3"}}
        with pytest.raises(BadInput) as error:
            unique_tags([("one", "x"), ("two", "x")], values)
        assert error.value.do == "add {cann_tag} to the tag template"

    def test_folding_that_makes_two_tags_equal_is_said(self):
        values = {"one": {"verl": "fix/x"}, "two": {"verl": "fix-x"}}
        tags = [(variant, render_tag("{verl}", known)) for variant, known in values.items()]
        with pytest.raises(BadInput) as error:
            unique_tags(tags, values)
        assert error.value.do == "rename one: verl is 'fix/x' and 'fix-x', and both stand as fix-x in a tag"

    def test_two_variants_that_differ_in_nothing_are_told_so(self):
        with pytest.raises(BadInput) as error:
            unique_tags([("one", "x"), ("two", "x")], {"one": UBUNTU, "two": UBUNTU})
        assert error.value.do.startswith("give two a `tag` of its own in [variant.two]")
        assert "another `repository`" in error.value.do

    def test_one_variant_may_have_several_tags(self):
        assert unique_tags([("a2", "x"), ("a2", "x-aarch64"), ("a2", "x")]) == {"x": "a2", "x-aarch64": "a2"}

    @given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"))))
    def test_an_answer_has_every_tag_and_never_two_owners_for_one(self, pairs):
        owners_by_tag = {tag: {variant for variant, other in pairs if other == tag} for _, tag in pairs}
        if all(len(owners) == 1 for owners in owners_by_tag.values()):
            assert unique_tags(pairs) == {tag: next(iter(owners)) for tag, owners in owners_by_tag.items()}
        else:
            with pytest.raises(BadInput):
                unique_tags(pairs)
