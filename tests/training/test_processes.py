"""A batch that two processes share: the same mathematics."""

import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import torch
from tests.training.runs import SMALL, arguments, interrupt, json_of, recomputed, rows_of, small, started

from orthoframe.errors import OptionError, OrthoframeError, TrainingError
from orthoframe.runs import CHECKPOINT, load_encoder
from orthoframe.training import Ramp, RunListener, is_first_process, make_task, resume, train
from orthoframe.training._processes import find_processes, start_processes

SCRIPT = Path(__file__).with_name("several.py")
# Batches of 41 rows, 31 of the sampler's and 10 that bind, and a last one of 35: never two equal halves.
UNEVEN = {"batch_size": 31, "epochs": 5}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node"]
two_cores = pytest.mark.skipif(os.cpu_count() == 1, reason="there is one core, and two processes need two")


def launched(words, variables, folder, name):
    """The script in a fork, with the variables of a launcher; what it prints goes into files."""
    os.environ.update({name: str(value) for name, value in variables.items()})
    for number, stream in ((1, "out"), (2, "err")):
        with open(folder / f"{name}.{stream}", "w") as file:
            os.dup2(file.fileno(), number)
    sys.argv[:] = [str(SCRIPT), *map(str, words)]
    try:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # not every version of Python does at the end of a fork


def side_by_side(words, environments, folder):
    """What each of several processes has said and complained of, which a launcher starts with these variables.

    Forks, because imports take ten times as long as the rest. All must end well.
    """
    with ExitStack() as stack:
        processes = [
            stack.enter_context(started(launched, words, variables, folder, number))
            for number, variables in enumerate(environments)
        ]
        for process in processes:
            process.join(120)
    said = [[(folder / f"{n}.{stream}").read_text() for stream in ("out", "err")] for n in range(len(processes))]
    assert [process.exitcode for process in processes] == [0] * len(processes), said
    return said


@contextmanager
def python(*words, **variables):
    """Python with these arguments; neither it nor what it started is left at the end."""
    process = subprocess.Popen(
        [sys.executable, *map(str, words)],
        env={**ENVIRONMENT, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.terminate()  # torchrun ends its processes, which are not of its group
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def ended(processes):
    """What each has said and complained of; all must end well."""
    said = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return said


def joined(*commands):
    """Several commands for one start."""
    return [word for number, each in enumerate(commands) for word in (["--then"] * (number > 0) + each)]


def losses_agree(folder, alone):
    """Loss of every epoch, to the rounding of float32; and all that is measured, which is as sensitive as it is."""
    assert len(rows_of(folder)) == len(rows_of(alone))
    for row, other in zip(rows_of(folder), rows_of(alone), strict=True):
        assert row["loss"] == pytest.approx(other["loss"], rel=1e-6)
        assert row.keys() == other.keys()
        for name in ("floor", "collapsed", "lr", "temperature"):
            assert row.get(name) == other.get(name)
        assert row["delta_of"] == pytest.approx(other["delta_of"], rel=1e-3)
    return True


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The folder of a run of one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    train(small(**UNEVEN), folder)
    return folder


@two_cores
def test_ctrl_c_in_two_processes_and_on_under_torchrun(tmp_path, alone):
    """`--devices 2` is interrupted; torchrun goes on with it; the losses are those of one process.

    One start of torchrun serves all that it can: a start takes as long as everything else here.
    """
    shared = tmp_path / "shared"
    words = ["train", *arguments(**UNEVEN), "--devices", "2"]
    with python(SCRIPT, *words, "--out", shared) as process:
        deadline = time.monotonic() + 120
        while not (shared / CHECKPOINT).exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said, complaint = process.communicate(timeout=60)
    assert process.returncode == 130, complaint
    assert complaint.count("orthoframe: interrupted; resume with: orthoframe train --resume") == 1
    assert "Traceback" not in complaint
    assert said.count("The floor of the loss") == 1
    assert not (shared / "encoder.safetensors").exists()

    names = ("entropy", "pooled", "hopeless", "nowhere", "plain", "odd", "framed", "settled")
    entropy, pooled, hopeless, nowhere, plain, odd, framed, settled = (tmp_path / name for name in names)
    small_words = ["train", *arguments(**{**UNEVEN, "majority": 12, "epochs": 2})]
    words_alone = words[: words.index("--devices")]
    every = joined(
        ["train", "--resume", shared],
        [*words, "--loss", "cross-entropy", "--out", entropy],
        [*small_words, "--model", "resnet18", "--width", "4", "--devices", "2", "--out", pooled],
        [*words, "--lr", "9e29", "--out", hopeless],
        ["train", "--resume", nowhere],
        [*words_alone, "--out", plain],
        [*words_alone, "--out", plain],
        [*words_alone, "--devices", "3", "--out", odd],
        [*words, "--binding", "none", "--prototypes", "--out", framed],
        # A classifier whose weight ends at zero still has a gradient that processes wait for.
        [*words, "--binding", "none", "--loss", "frame", "--classifier", "1:0", "--out", settled],
    )
    # The second process writes into files: two that write into one pipe may meet in the middle of a line.
    logs = tmp_path / "logs"
    with python(*TORCHRUN, 2, "--standalone", "--redirects", "1:3", "--log-dir", logs, SCRIPT, *every) as process:
        ((said, complaint),) = ended([process])
    statuses = [line for line in said.splitlines() if line.startswith("status")]
    assert statuses == [f"status {each}" for each in (0, 0, 0, 1, 2, 0, 2, 2, 0, 0)]
    (silence,), (silent_complaint,) = (logs.glob(f"**/1/{name}.log") for name in ("stdout", "stderr"))
    assert silence.read_text() == "status 0\n" * 10
    assert "orthoframe:" not in silent_complaint.read_text()

    assert losses_agree(shared, alone)
    assert json_of(shared / "run.json")["processes"] == 2
    recomputed(shared)
    alone_entropy = tmp_path / "alone-entropy"
    train(small(loss="cross-entropy", **UNEVEN), alone_entropy)
    assert losses_agree(entropy, alone_entropy)
    alone_framed = tmp_path / "alone-framed"
    train(small(binding="none", prototypes=True, **UNEVEN), alone_framed)
    assert losses_agree(framed, alone_framed)
    alone_settled = tmp_path / "alone-settled"
    train(small(binding="none", loss="frame", classifier=Ramp(1.0, 0.0), **UNEVEN), alone_settled)
    assert losses_agree(settled, alone_settled)

    # BatchNorm: a note, once, and a run that ends.
    note = "BatchNorm statistics are computed in each process"
    assert complaint.count(note) == 1
    assert load_encoder(pooled).classes == tuple("0123456789")
    assert len(rows_of(pooled)) == 2

    assert complaint.count("orthoframe: the loss is nan in step") == 1
    with pytest.raises(TrainingError, match="the loss is nan"):
        train(small(lr=9e29, **UNEVEN), tmp_path / "alone-hopeless")
    assert json_of(hopeless / "nan-batch.json") == json_of(tmp_path / "alone-hopeless" / "nan-batch.json")
    assert complaint.count("config.json: there is no run to resume") == 1
    for folder in (shared, entropy, pooled, plain, framed, settled):
        assert said.count(f"report: {folder / 'report.html'}") == 1

    # Without --devices the two that torchrun started share the run; a second start and a contradiction are refused.
    assert losses_agree(plain, alone)
    assert json_of(plain / "config.json")["devices"] == 1  # as was asked
    assert json_of(plain / "run.json")["processes"] == 2
    assert complaint.count(f"{plain} has a run in it") == 1
    assert complaint.count("--devices 3 contradicts torchrun, which has started 2 processes; leave --devices out") == 1
    assert not odd.exists()


@two_cores
def test_slurm(tmp_path, alone):
    """Two tasks as srun starts them: they share a run, and one that another process holds is refused by both."""
    from filelock import FileLock

    shared, held = tmp_path / "shared", tmp_path / "held"
    held.mkdir()
    job = {"SLURM_NTASKS": "2", "SLURM_NNODES": "1", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NODEID": "0"}
    job |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    words = ["train", *arguments(**UNEVEN)]
    every = joined([*words, "--out", shared], [*words, "--out", held])
    with FileLock(held / ".lock"):
        tasks = [{**job, "SLURM_PROCID": number, "SLURM_LOCALID": number} for number in range(2)]
        (first, complaint), (second, silence) = side_by_side(every, tasks, tmp_path)
    assert losses_agree(shared, alone)
    assert [line for line in first.splitlines() if line.startswith("status")] == ["status 0", "status 2"]
    assert second == "status 0\nstatus 0\n"
    assert complaint.count(f"orthoframe: {held}: another process is training into it") == 1
    assert "orthoframe:" not in silence
    assert [path.name for path in held.iterdir()] == [".lock"]
    # One that is left may abort the process.
    assert complaint.splitlines()[-1] == silence.splitlines()[-1] == "gloo threads: 0"


@two_cores
def test_processes_end_well():
    """A few starts of what the benchmark does hundreds of times."""
    with python(SCRIPT.parents[2] / "benchmarks" / "process_exits.py", "--starts", 3) as process:
        ((said, _),) = ended([process])
    assert said == "3 starts of 2 processes, 0 with an abnormal exit: at most 63 % of all starts\n"


@two_cores
def test_torchrun_on_two_nodes(tmp_path, alone):
    """As it starts one process on each of them; both are this machine."""
    shared = tmp_path / "shared"
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    nodes = [{**torchrun(2, 1, 2), **meeting, "RANK": node, "GROUP_RANK": node} for node in range(2)]
    said = side_by_side(["train", *arguments(**UNEVEN), "--out", shared], nodes, tmp_path)
    assert "".join(text for text, _ in said).count(f"report: {shared / 'report.html'}") == 1
    assert losses_agree(shared, alone)


def test_a_run_goes_on_with_another_number_of_processes(tmp_path, alone):
    """In as many as there can be, which are fewer: it says so, and the losses are the same."""
    folder = tmp_path / "run"
    interrupt(small(**UNEVEN), folder, epoch=1, steps=2)
    used = json_of(folder / "run.json")
    (folder / "run.json").write_text(json.dumps({**used, "processes": 64}))
    notes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "cpu_count", lambda: 1)
        patch.setattr(torch.cuda, "device_count", lambda: 0)
        resume(folder, RunListener(on_note=notes.append))
    ((note,),) = notes
    assert "64 processes before" in note
    assert losses_agree(folder, alone)


TORCHELASTIC = {"TORCHELASTIC_RUN_ID": "x", "RANK": "0", "LOCAL_RANK": "0"}
SLURM = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}


@pytest.fixture
def environment(monkeypatch):
    """Sets variables, where none of a launcher is set."""
    for name in list(os.environ):
        if name.startswith(("SLURM_", "TORCHELASTIC_")) or name.endswith(("RANK", "WORLD_SIZE")):
            monkeypatch.delenv(name)
    return lambda variables: [monkeypatch.setenv(name, str(value)) for name, value in variables.items()]


def torchrun(count, per_node, nodes):
    return {**TORCHELASTIC, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": per_node, "GROUP_WORLD_SIZE": nodes}


def slurm(count, per_node=None, nodes=None):
    sizes = {"SLURM_NTASKS": count, "SLURM_NTASKS_PER_NODE": per_node, "SLURM_NNODES": nodes}
    return {**SLURM, **{name: value for name, value in sizes.items() if value is not None}}


@pytest.mark.parametrize(
    ("variables", "devices", "expected"),
    [
        ({}, 1, (1, 1, False)),
        (torchrun(2, 2, 1), 1, (2, 1, True)),
        (torchrun(16, 8, 2), 1, (8, 2, True)),
        (torchrun(16, 8, 2), 8, (8, 2, True)),  # as Fabric counts them
        (torchrun(16, 8, 2), 16, (8, 2, True)),
        (torchrun(1, 1, 1), 1, (1, 1, True)),
        (slurm(4, 2, 2), 2, (2, 2, True)),
        (slurm(4, 2), 1, (2, 2, True)),
        (slurm(1), 1, (1, 1, True)),
        (slurm(1, 4, 2), 1, (1, 1, True)),  # a step that is smaller than its job
        ({**slurm(4, 2, 2), "SLURM_JOB_NAME": "interactive"}, 1, (1, 1, False)),
        ({**slurm(4), "SLURM_JOB_NAME": "bash"}, 1, (1, 1, False)),
        ({**slurm(4), **torchrun(2, 2, 1)}, 1, (2, 1, True)),
    ],
    ids=str,
)
def test_what_a_launcher_has_started(variables, devices, expected, environment):
    environment(variables)
    processes = find_processes(devices)
    launched = processes.environment.creates_processes_externally
    assert (processes.per_node, processes.nodes, launched) == expected
    assert processes.count == expected[0] * expected[1]
    assert processes.first
    assert find_processes(7 if launched else 1, resumed=True).count == processes.count


@pytest.mark.parametrize(
    ("variables", "devices", "sentence"),
    [
        (torchrun(2, 2, 1), 3, "devices=3 contradicts torchrun, which has started 2 processes; leave devices out"),
        (slurm(1), 2, "devices=2 contradicts SLURM, which has started 1 process; leave devices out"),
        (
            slurm(4, 2, 2),
            3,
            "devices=3 contradicts SLURM, which has started 4 processes, 2 on each of 2 nodes; leave devices out",
        ),
        (
            slurm(2),
            2,
            "SLURM has started 2 tasks and does not say how many per node; set ntasks-per-node",
        ),
        (
            torchrun(3, 2, 2),
            1,
            "torchrun has started 3 processes on 2 nodes, which is not 2 on each; start the same number on every node",
        ),
        (slurm("many"), 1, "the variable SLURM_NTASKS must be a number from 1, not 'many'"),
        # What Fabric says, when it is made: SLURM_LOCALID is missing.
        ({"SLURM_NTASKS": 2, "SLURM_NTASKS_PER_NODE": 2}, 1, "cannot be started (KeyError: 'SLURM_"),
    ],
    ids=str,
)
def test_what_cannot_be_shared_is_refused_in_a_sentence(variables, devices, sentence, environment, tmp_path):
    environment(variables)
    with pytest.raises(OrthoframeError) as refused:
        train(small(devices=devices), tmp_path / "run")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run" / "config.json").exists()


def test_one_process_speaks(environment):
    for variables, first in (
        ({"LOCAL_RANK": 1}, False),  # Fabric started it
        ({**torchrun(2, 1, 2), "RANK": 1}, False),  # the only one of its node
        ({**slurm(4, 2, 2), "SLURM_PROCID": 2}, False),
        ({**slurm(4, 2, 2), "SLURM_PROCID": 2, "SLURM_JOB_NAME": "bash"}, True),
    ):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, str(value))
            assert is_first_process() is first


def test_a_refusal_is_shared_once_the_others_are_there(environment, monkeypatch):
    """The second run of a program: Fabric has started the other process for the first, and it would wait."""

    class Meeting:
        world_size = 1

        def __init__(self, **_):
            pass

        def launch(self):
            met.append(True)

    met = []
    monkeypatch.setattr("orthoframe.training._processes.Fabric", Meeting)
    for variables, meetings in (({}, 0), ({"LOCAL_RANK": 0}, 1)):
        environment(variables)
        with pytest.raises(OptionError, match="not so"):
            start_processes(find_processes(2, resumed=True), "32", OptionError("not so"))
        assert len(met) == meetings


def test_a_start_that_failed_can_be_made_again(tmp_path, monkeypatch, alone):
    def fails(self):
        raise RuntimeError("no network\nat all")

    with monkeypatch.context() as patch:
        patch.setattr("lightning_fabric.Fabric.launch", fails)
        with pytest.raises(TrainingError, match=r"cannot be started \(RuntimeError: no network\); fix that") as refused:
            train(small(**UNEVEN), tmp_path / "run")
    assert "\n" not in str(refused.value)
    assert train(small(**UNEVEN), tmp_path / "run") is not None
    assert losses_agree(tmp_path / "run", alone)


def test_batches_are_uneven():
    """What the name says."""
    assert SMALL["batch_size"] != UNEVEN["batch_size"]
    assert all(len(batch) % 2 for batch in make_task(small(**UNEVEN)).plan.batches(0))


def test_more_processes_than_can_be_are_never_started(environment):
    """Asked of the check itself: what it lets through would be started."""
    environment({})
    there = torch.cuda.device_count() or os.cpu_count()
    assert find_processes(there).count == there
    assert find_processes(100_000, resumed=True).count == there
    for devices in (there + 1, 100_000):
        with pytest.raises(OptionError, match=f"devices={devices} exceeds the {there} "):
            find_processes(devices)
