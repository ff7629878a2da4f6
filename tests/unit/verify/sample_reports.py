"""Reports to show: images that fail, that cannot tell, that pass, and texts that would break what they are put into."""

from hypothesis import strategies as st

from ascend_images.verify.report import ANSWERS, Report, Result

TRACEBACK = "Traceback (most recent call last):\n" + "".join(
    f'  File "/vllm/vllm/module_{number}.py", line {number}, in <module>\n    import module_{number + 1}\n'
    for number in range(120)
)
STDERR = TRACEBACK + "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory"

NO_NPU = "no NPU here (no /dev/davinci*)"
NO_PINS = "the image has no /opt/ascend-images/image.json, so its pins are not known"

TORCH = Result(
    check="torch-family",
    answer="fail",
    subject="torch_npu",
    found="torch 2.11.0, torch_npu 2.10.0.post2; torch is a CUDA build",
    wanted="torch 2.10.0, torch_npu 2.10.0.post2",
    next="see which install step brought the other version; the whole set is in lock.txt",
)
IMPORT = Result(
    check="entry-points",
    answer="fail",
    subject="vllm.entrypoints.openai.api_server",
    found=STDERR,
    wanted="an import that ends with 0",
    next="docker run --rm IMAGE python3 -c 'import vllm.entrypoints.openai.api_server'",
)
#: Markup of HTML, Markdown, rich and XML, a formula, line ends, a colour, a bell, and letters beyond ASCII.
ODD = Result(
    check="environment",
    answer="fail",
    subject="A|B`C`",
    found="<script>alert('x')</script> | `code` [bold]x[/bold] ]]> &amp; \x1b[31mred\x1b[0m\x07\r\n"
    "$HOME *a* __b__ #1 @x 环境 🚀",
    wanted="a value without \" or ' or\nline ends",
    next="unset A && B='\"'",
)
#: An engine's whole error, repeated by every check that hangs on the container.
RUNC = "did not start: failed to create task for container: " + ", ".join(["OCI runtime create failed"] * 4)
NPU_CHECKS = ("npu-smi", "chip", "devices", "matmul", "all-reduce", "generate")


def passes(*names: str) -> tuple[Result, ...]:
    return tuple(Result(check=name, answer="pass", found="as pinned") for name in names)


def not_run(*names: str) -> tuple[Result, ...]:
    return tuple(Result(check=name, answer="not run", found=NO_NPU) for name in names)


def report(name: str, *results: Result, platform: str = "linux/arm64") -> Report:
    return Report(
        name=name,
        image=f"quay.io/ascend/ms-swift:v4.5.2-{name}",
        digest="sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        platform=platform,
        pins="sha256:" + "5" * 64,
        when="2026-03-01T12:00:00Z",
        seconds=41.25,
        host={"machine": "aarch64", "npus": ["910B3", "910B3"], "driver": "25.2.0", "npu_smi": ""},
        results=tuple(results),
        facts={},
    )


FAILING = report(
    "a2",
    *passes("architecture", "operating-system", "python"),
    TORCH,
    Result(check="pinned-packages", answer="unknown", subject="transformers", found=NO_PINS),
    Result(check="pinned-packages", answer="unknown", subject="peft", found=NO_PINS),
    Result(check="locked-packages", answer="unknown", found=NO_PINS),
    IMPORT,
    *not_run(*NPU_CHECKS),
)
ODD_ONE = report(
    "a2-<b>odd</b>|`x`",
    *passes("architecture"),
    ODD,
    TORCH,
    Result(check="git", answer="unknown", subject="源码", found="line 1\nline 2 | `x`", next="git status | cat"),
    *not_run("chip"),
    platform="linux/amd64",
)
UNKNOWN = report(
    "a3",
    *passes("architecture", "python"),
    Result(check="locked-packages", answer="unknown", found=NO_PINS),
    *not_run(*NPU_CHECKS),
)
#: No failure on a host without NPUs; one check passes although one of its answers was not run.
CALM = report(
    "a5",
    *passes("architecture", "python", "matmul"),
    *not_run(*NPU_CHECKS),
)
BROKEN = report(
    "a2-broken",
    Result(check="container", answer="fail", subject="a2", found=RUNC, wanted="python3", next="docker run --rm a2"),
    Result(check="devices-given", answer="not run", found="no NPU was asked for"),
    *(Result(check=name, answer="not run", found=f"because of container: {RUNC}") for name in ("python", "chip")),
    Result(check="matmul", answer="not run", found="because of chip: A3"),
)
GREEN = report("310p", *passes("architecture", "python", "torch-family"))
EMPTY = report("nothing")
ALL = [FAILING, ODD_ONE, UNKNOWN, GREEN, EMPTY, CALM, BROKEN]

_odd = [STDERR, ODD.found, "", "\n\n", "]]>", "</pre>", "- x", "# x", "<!-- x", "\n| a | b |\n|---|---|\n", "{{ x }}"]
_text = st.text(st.characters(codec=None), max_size=60) | st.sampled_from(_odd)
_known = st.none() | st.booleans() | st.integers() | _text | st.lists(_text, max_size=3)
_result = st.builds(
    Result,
    check=st.sampled_from(["torch-family", "environment", "chip"]) | _text,
    answer=st.sampled_from(ANSWERS),
    subject=_text,
    found=_text,
    wanted=_text,
    next=_text,
)
#: Any report, whatever its texts hold: control characters, lone surrogates, markup.
ANY = st.builds(
    Report,
    name=_text,
    image=_text,
    digest=_text,
    platform=_text,
    pins=_text,
    when=_text,
    seconds=st.floats(0, 1e6),
    host=st.dictionaries(_text, _known, max_size=3),
    results=st.lists(_result, max_size=6).map(tuple),
    facts=st.just({}),
)
