"""What keeps the project right; `nox -l` lists the sessions, `nox` runs lint, tests and e2e."""

from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "tests", "e2e"]

ROOT = Path(__file__).parent
SCRIPTS = (
    "scripts/emulation.sh",
    "scripts/engine.sh",
    "scripts/prepare_runner.sh",
    "scripts/quickstart.sh",
    "scripts/registry_login.sh",
    "scripts/repeat_flag.sh",
    "scripts/setup.sh",
    "scripts/test.sh",
    ".ci/run",
)
#: Looks into workflows for holes, by what is here alone, and finds style worth a remark as well.
ZIZMOR = ("--offline", "--no-progress", "--persona=pedantic")
#: The schema of workflows that check-jsonschema brings along.
WORKFLOW_SCHEMA = ("--builtin-schema", "vendor.github-workflows")


def install(session: nox.Session) -> None:
    """Install the project and its development tools at their pinned versions."""
    session.install("-e", ".[dev]")


@nox.session
def lint(session: nox.Session) -> None:
    """Check code, types, what is committed as rendered, workflows, and every shell script, shipped or rendered."""
    install(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("invoke", "check")
    session.run("invoke", "lock", "--check")
    session.run("invoke", "render", "--check")
    session.run("invoke", "tags", "--check")
    session.run("shellcheck", *SCRIPTS)
    workflows = sorted(str(path.relative_to(ROOT)) for path in (ROOT / ".github/workflows").glob("*.yml"))
    session.run("check-jsonschema", *WORKFLOW_SCHEMA, *workflows)
    session.run("check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml")
    session.run("zizmor", *ZIZMOR, ".github")
    rendered = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "dockerfiles/rendered").glob("*.Dockerfile"))
    session.run("hadolint", *rendered)
    session.run("python", "-m", "ascend_images.images.lint", *rendered)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the unit tests: sealed from network, Docker and other programs unless a test asks."""
    install(session)
    session.run("pytest", "-q", "-n", "2", *(session.posargs or ["tests/unit"]))


@nox.session
def e2e(session: nox.Session) -> None:
    """Build images in the sandbox on a real Docker Engine, and make them fail on purpose."""
    install(session)
    session.run("pytest", "-q", *(session.posargs or ["tests/e2e"]))


@nox.session(default=False)
def verify(session: nox.Session) -> None:
    """Ask an image, check by check, whether it is what its pins say and works on this host.

    nox -s verify -- --variant a2 [--image REF] [--require-npu] …; `nox -s verify -- --help` lists the words.
    """
    install(session)
    session.run("python", "-m", "tests.verify", *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure rendering, locking, and verification where the sandbox's a2 is built, each as ratios within one run.

    nox -s bench -- --builds [--rounds N] [--only STEP]… measures building instead: docs/benchmarks.md says how long.
    """
    install(session)
    if "--builds" in session.posargs:
        session.run("python", "-m", "tests.bench_build", *(word for word in session.posargs if word != "--builds"))
        return
    session.run("python", "-m", "tests.bench", *session.posargs)
    session.run("python", "-m", "tests.bench_lock", *session.posargs)
    session.run("python", "-m", "tests.bench_verify", *session.posargs)


@nox.session(default=False)
def accept(session: nox.Session) -> None:
    """Write the golden files anew from what the code gives now; read the difference before committing it."""
    install(session)
    session.run("pytest", "-q", "tests/unit", "--accept", *session.posargs)
