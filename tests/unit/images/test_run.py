"""Build processes: so many at a time, one log each, one failure alone, and all gone after an interruption."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ascend_images.images import run as run_module
from ascend_images.images.progress import BuildState, Line
from ascend_images.images.run import Ended, Interrupted, Job, run_jobs, run_next

pytestmark = pytest.mark.subprocess


class Seen:
    """A view that remembers what it was told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.running = 0
        self.most = 0

    def started(self, name: str) -> None:
        self.events.append(("started", name))
        self.running += 1
        self.most = max(self.most, self.running)

    def said(self, name: str, line: Line) -> None:
        self.events.append(("said", f"{name}: {line.text}"))

    def update(self, name: str, state: BuildState) -> None:
        pass

    def ended(self, name: str, ok: bool, seconds: float) -> None:
        self.events.append(("built" if ok else "failed", name))
        self.running -= 1

    def interrupted(self, name: str, seconds: float) -> None:
        self.events.append(("interrupted", name))
        self.running -= 1


def job(folder: Path, name: str, code: str, **more: object) -> Job:
    return Job(
        name=name,
        command=(sys.executable, "-c", f"import sys, time, os, signal\n{code}"),
        cwd=folder,
        log=folder / "logs" / f"{name}.log",
        environment=dict(os.environ),
        **more,  # type: ignore[arg-type]
    )


def go(jobs: list[Job], at_once: int = 4) -> tuple[Seen, list[Ended]]:
    seen, ended = Seen(), []

    def on_end(end: Ended) -> bool:
        ended.append(end)
        return end.code == 0

    run_jobs(jobs, at_once=at_once, view=seen, on_end=on_end)
    return seen, ended


def interrupt_when(condition, *signums: int) -> threading.Thread:
    """Sends this process signals, one after the other, once something holds."""

    def send() -> None:
        deadline = time.monotonic() + 20
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
        for signum in signums:
            os.kill(os.getpid(), signum)
            time.sleep(0.5)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def test_what_a_build_says_goes_to_its_log_and_to_the_view(tmp_path: Path) -> None:
    seen, (end,) = go(
        [job(tmp_path, "one", "print('hello', file=sys.stderr); print('no end', file=sys.stderr, end='')")]
    )
    assert (tmp_path / "logs" / "one.log").read_text() == "hello\nno end\n"
    assert seen.events == [("started", "one"), ("said", "one: hello"), ("said", "one: no end"), ("built", "one")]
    assert (end.code, end.failure) == (0, None)
    assert end.seconds > 0


def test_a_log_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "one.log").write_text("of yesterday\n")
    go([job(tmp_path, "one", "pass")])
    assert (tmp_path / "logs" / "one.log").read_text() == ""


def test_the_log_of_another_try_goes_on_where_that_of_the_first_ended(tmp_path: Path) -> None:
    go([job(tmp_path, "one", "print('lost', file=sys.stderr)")])
    go([job(tmp_path, "one", "print('made', file=sys.stderr)", again=True, note="builder: farm")])
    assert (tmp_path / "logs" / "one.log").read_text() == "lost\nbuilder: farm\nmade\n"


def test_no_more_run_at_a_time_than_asked_for(tmp_path: Path) -> None:
    for at_once in (1, 2):
        seen, ended = go([job(tmp_path, f"j{n}", "time.sleep(0.1)") for n in range(4)], at_once)
        assert seen.most == at_once
        assert len(ended) == 4


def test_one_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    jobs = [job(tmp_path, "bad", "sys.exit('ERROR: it broke')"), job(tmp_path, "good", "time.sleep(0.3)")]
    seen, ended = go([*jobs, job(tmp_path, "later", "pass")], at_once=2)
    assert {end.job.name: end.code for end in ended} == {"bad": 1, "good": 0, "later": 0}
    failure = next(end.failure for end in ended if end.job.name == "bad")
    assert failure is not None
    assert failure.error == "it broke"
    assert ("failed", "bad") in seen.events
    assert ("built", "later") in seen.events


def test_the_next_job_is_asked_for_at_the_beginning_and_whenever_one_has_ended(tmp_path: Path) -> None:
    waiting = [
        job(tmp_path, name, f"while not os.path.exists({str(tmp_path / f'go-{name}')!r}): time.sleep(0.01)")
        for name in "abc"
    ]
    asked: list[str] = []
    ended: list[str] = []

    def next_job() -> Job | None:
        asked.append("".join(ended))
        # One after the other, so that not both of the first have ended when it is asked again.
        go_on = {3: "a", 4: "bc"}.get(len(asked), "")
        for name in go_on:
            (tmp_path / f"go-{name}").touch()
        # The last one waits for the first, as where one builder alone may build it.
        return waiting.pop(0) if waiting and (len(waiting) > 1 or ended) else None

    run_next(next_job, view=Seen(), on_end=lambda end: not ended.append(end.job.name))  # type: ignore[func-returns-value]
    assert sorted(ended) == ["a", "b", "c"]
    assert asked[:3] == ["", "", ""]
    assert len(asked[3]) == 1


def test_what_there_is_to_tell_of_a_job_is_the_first_line_of_its_log(tmp_path: Path) -> None:
    seen, _ = go([job(tmp_path, "one", "print('hello', file=sys.stderr)", note="builder: farm")])
    assert (tmp_path / "logs" / "one.log").read_text() == "builder: farm\nhello\n"
    assert seen.events[:2] == [("started", "one"), ("said", "one: builder: farm")]


def test_what_kills_a_build_is_told_by_its_code(tmp_path: Path) -> None:
    _, (end,) = go([job(tmp_path, "killed", "os.kill(os.getpid(), signal.SIGKILL)")])
    assert end.code == -signal.SIGKILL


def test_credentials_do_not_reach_the_log(tmp_path: Path) -> None:
    go([job(tmp_path, "one", "print('https://me:s3cret@host', file=sys.stderr)", hide=("s3cret",))])
    assert (tmp_path / "logs" / "one.log").read_text() == "https://me:***@host\n"


def test_much_output_of_two_at_once_stays_whole(tmp_path: Path) -> None:
    code = "for n in range(20000): print(n, 'x' * 50, file=sys.stderr)"
    go([job(tmp_path, name, code) for name in ("a", "b")])
    for name in ("a", "b"):
        lines = (tmp_path / "logs" / f"{name}.log").read_text().splitlines()
        assert [int(line.split()[0]) for line in lines] == list(range(20000))


def test_a_program_that_is_not_there_ends_the_call_and_leaves_no_process(tmp_path: Path) -> None:
    missing = Job("none", ("/no/such/program",), tmp_path, tmp_path / "none.log", {})
    with pytest.raises(FileNotFoundError):
        go([job(tmp_path, "one", f"open('{tmp_path}/pid', 'w').write(str(os.getpid())); time.sleep(60)"), missing])
    assert not (tmp_path / "pid").exists() or not alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_that_run_with_what_they_started_and_begins_no_other(tmp_path: Path, signum: int) -> None:
    """As the docker client does, each starts a process of its own that does the work."""
    code = (
        "import subprocess\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"file = f'{tmp_path}/{{os.getpid()}}.pids'\n"
        "open(file, 'w').write(f'{os.getpid()} {child.pid} ')\n"
        "child.wait()"
    )
    jobs = [job(tmp_path, name, code) for name in ("a", "b", "waiting")]
    seen, ended = Seen(), []

    def pids() -> list[int]:
        return [int(pid) for file in tmp_path.glob("*.pids") for pid in file.read_text().split()]

    thread = interrupt_when(lambda: len(pids()) == 4, signum)
    began = time.monotonic()
    with pytest.raises(Interrupted) as interrupted:
        run_jobs(jobs, at_once=2, view=seen, on_end=lambda end: bool(ended.append(end)))  # type: ignore[func-returns-value]
    thread.join()
    assert interrupted.value.signum == signum
    assert isinstance(interrupted.value, KeyboardInterrupt)
    assert time.monotonic() - began < 15
    assert ended == [], "an interrupted build has no end of its own"
    assert [event for event in seen.events if event[0] == "started"] == [("started", "a"), ("started", "b")]
    assert {event for event in seen.events if event[0] not in ("started", "said")} == {
        ("interrupted", "a"),
        ("interrupted", "b"),
    }
    assert sorted(interrupted.value.names) == ["a", "b"]
    assert len(pids()) == 4
    assert not [pid for pid in pids() if alive(pid)]


STUBBORN = "signal.signal(signal.SIGINT, signal.SIG_IGN); open('{0}/ready', 'w').close(); time.sleep(60)"


def test_a_second_signal_insists(tmp_path: Path) -> None:
    thread = interrupt_when((tmp_path / "ready").exists, signal.SIGINT, signal.SIGINT)
    began = time.monotonic()
    with pytest.raises(Interrupted):
        go([job(tmp_path, "stubborn", STUBBORN.format(tmp_path))])
    thread.join()
    assert time.monotonic() - began < 10


def test_what_does_not_end_by_itself_is_ended_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "GRACE_SECONDS", 0.5)
    thread = interrupt_when((tmp_path / "ready").exists, signal.SIGTERM)
    began = time.monotonic()
    with pytest.raises(Interrupted):
        go([job(tmp_path, "stubborn", STUBBORN.format(tmp_path))])
    thread.join()
    assert time.monotonic() - began < 10


def test_signals_mean_afterwards_what_they_meant_before(tmp_path: Path) -> None:
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    go([job(tmp_path, "one", "pass")])
    assert {signum: signal.getsignal(signum) for signum in before} == before


def test_jobs_run_in_another_thread_as_well(tmp_path: Path) -> None:
    found: list[Ended] = []
    thread = threading.Thread(target=lambda: found.extend(go([job(tmp_path, "one", "pass")])[1]))
    thread.start()
    thread.join(20)
    assert [end.code for end in found] == [0]


def test_an_error_in_what_follows_a_build_leaves_no_process(tmp_path: Path) -> None:
    long = job(tmp_path, "long", f"open('{tmp_path}/pid', 'w').write(str(os.getpid())); time.sleep(60)")
    short = job(tmp_path, "short", f"while not os.path.exists('{tmp_path}/pid'): time.sleep(0.01)\ntime.sleep(0.2)")

    def fail(_: Ended) -> bool:
        raise RuntimeError("unexpected")

    with pytest.raises(RuntimeError, match="unexpected"):
        run_jobs([long, short], at_once=2, view=Seen(), on_end=fail)
    assert not alive(int((tmp_path / "pid").read_text()))


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        thread = interrupt_when((tmp_path / "ready").exists, signal.SIGHUP)
        seen, _ = go([job(tmp_path, "one", f"open('{tmp_path}/ready', 'w').close(); time.sleep(1)")])
        thread.join()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert seen.events[-1] == ("built", "one")


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv of util-linux here")
def test_a_build_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = f"open('{tmp_path}/pid', 'w').write(str(os.getpid())); time.sleep(60)"
    text = (
        "from pathlib import Path\nfrom tests.unit.images.test_run import go, job\n"
        f"go([job(Path({str(tmp_path)!r}), 'one', {code!r})])"
    )
    with subprocess.Popen([sys.executable, "-c", text], cwd=Path(__file__).parents[3]) as parent:
        deadline = time.monotonic() + 30
        while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        parent.kill()
    pid = int((tmp_path / "pid").read_text())
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(pid)
