#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""lockstep-run with fake launchers, and with the real one.

run_test.py LOCKSTEP_RUN HELLO MPI MPIEXEC   MPI: openmpi or mpich; MPIEXEC: empty if it is not the one of the MPI library
"""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from programs import expect, expect_in, run_cases

program, hello, mpi, mpiexec = sys.argv[1:5]
LIMIT_S = 100
folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-run-test-"))
VERSIONS = {"openmpi": "mpirun (Open MPI) 4.1.4", "mpich": "HYDRA build details:"}
OWN, OTHER = (mpi, "mpich" if mpi == "openmpi" else "openmpi")
FAKE_RANKS = pathlib.Path(__file__).with_name("run_fake_ranks.py")


def make_launcher(name, version, body):
    """A shell script that answers --version and otherwise runs `body`."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{version}"; exit; fi\n'
                    f'if [ "$1" = --mpi=list ]; then echo "pmix pmi2"; exit; fi\n{body}\n')
    path.chmod(0o755)
    return str(path)


PRINTS = 'for a in "$@"; do echo "word $a"; done; env | grep -E "^(LOCKSTEP|OMPI|PRTE)" || true'
fake = make_launcher("own/mpirun", VERSIONS[OWN], PRINTS)
foreign = make_launcher("other/mpirun", VERSIONS[OTHER], PRINTS)
make_launcher("slurm/srun", "slurm 22.05", PRINTS)
leaves = make_launcher("leaves/mpirun", VERSIONS[OWN], "while [ $# -gt 2 ]; do shift; done; exit $2")
dies = make_launcher("dies/mpirun", VERSIONS[OWN], "kill -9 $$")
reads = make_launcher("reads/mpirun", VERSIONS[OWN], "cat")
waits = make_launcher("waits/mpirun", VERSIONS[OWN], "for s in INT TERM HUP QUIT USR1 USR2 TSTP; do trap \"echo got $s; exit 7\" $s; "
                      "done; echo ready $$; i=0; while [ $i -lt 6000 ]; do sleep 0.05; i=$((i + 1)); done")
measures = make_launcher("measures/mpirun", VERSIONS[OWN], f"exec {sys.executable} {FAKE_RANKS}")


def environment(**variables):
    names = ("SLURM_", "PBS_", "LSB_", "LOCKSTEP_", "OMPI_ALLOW", "PRTE_ALLOW", "NO_COLOR", "TERM")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    return dict(kept, **{name: str(value) for name, value in variables.items()})


def start(*arguments, **variables):
    begin = time.monotonic()
    result = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT_S, check=False,
                            stdin=subprocess.DEVNULL, env=environment(**variables))
    result.seconds = time.monotonic() - begin
    return result


def line_of(*arguments, launcher=fake, **variables):
    """The words of the command that --dry-run prints."""
    where = ["--launcher", launcher] if launcher else []
    result = start("--dry-run", *where, *arguments, **variables)
    expect(result.returncode == 0, result.stderr)
    return result.stdout


def refused(arguments, parts, code=2, **variables):
    def case():
        result = start(*arguments, **variables)
        expect(result.returncode == code, f"{result.returncode}: {result.stderr}")
        expect(len(result.stderr.splitlines()) == 1, result.stderr)
        expect_in(parts, result.stderr)

    return case


def passes_words_unchanged():
    result = start("--launcher", fake, "-n", 1, "a program", "-n", "--help", "it's", "", LOCKSTEP_ORDER="canonical")
    expect(result.returncode == 0, result.stderr)
    words = [line[5:] for line in result.stdout.splitlines() if line.startswith("word ")]
    expect(words[:2] == ["-n", "1"] and words[-5:] == ["a program", "-n", "--help", "it's", ""], words)
    metrics = [line for line in result.stdout.splitlines() if line.startswith("LOCKSTEP_METRICS=")]
    expect(len(metrics) == 1, result.stdout)
    expect(not pathlib.Path(metrics[0].split("=", 1)[1]).parent.exists(), "the directory of the metrics is still there")
    if mpi == "openmpi":
        expect_in(["word -x\nword LOCKSTEP_METRICS\nword -x\nword LOCKSTEP_ORDER\n"], result.stdout)
        if os.geteuid() == 0:
            expect_in(["OMPI_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1"], result.stdout)
            expect(result.stderr.count("OMPI_ALLOW_RUN_AS_ROOT") == 1, result.stderr)


def quotes_the_dry_run():
    line = line_of("-n", 1, "a program", "it's", "")
    expect(line.endswith("""'a program' 'it'\\''s' ''\n"""), line)


def adds_options_of_the_launcher():
    if mpi == "openmpi":
        expect_in([" --host a:2,b:3 ", " -n 5 "], line_of("-H", "a:2,b:3", "p"))
        expect_in([" --oversubscribe ", "--bind-to core:overload-allowed"], line_of("-n", 9, "-H", "a:2", "--bind", "core", "p"))
        expect("--oversubscribe" not in line_of("-n", 1, "p"), "one rank oversubscribes nothing")
        expect_in([" --oversubscribe "], line_of("-n", 100000, "p"))
        expect_in(["--map-by ppr:2:node"], line_of("-n", 4, "--ranks-per-host", 2, "p"))
    else:
        expect_in([" -hosts a:2,b:3 ", " -n 5 "], line_of("-H", "a:2,b:3", "p"))
        expect_in(["-ppn 2", "-bind-to numa"], line_of("-n", 4, "--ranks-per-host", 2, "--bind", "numa", "p"))


def preloads_the_drop_in():
    expect_in(["LD_PRELOAD=/", "/liblockstep_mpi.so", " -n 2 "], line_of("-n", 2, "--drop-in", "p"))
    expect_in(["/liblockstep_mpi.so:other.so"], line_of("-n", 2, "--drop-in", "p", LD_PRELOAD="other.so"))
    expect_in(["/liblockstep_mpi.so:/", "/liblockstep_malloc.so:other.so"], line_of("-n", 2, "--drop-in-memory", "p", LD_PRELOAD="other.so"))
    expect("LD_PRELOAD" not in line_of("-n", 2, "p"), "nothing is preloaded without the option")


def reads_allocations():
    hosts = folder / "hosts"
    hosts.write_text("a slots=2  # comment\n\nb:3\nb\n")
    expect_in([" -n 6 ", "a:2,b:4"], line_of("--hostfile", hosts, "p"))
    nodes = folder / "nodes"
    nodes.write_text("x\nx\ny\n")
    expect_in([" -n 3 ", "x:2,y:1"], line_of("p", PBS_NODEFILE=nodes))
    expect_in([" -n 3 ", "x:2,y:1"], line_of("p", LSB_DJOB_HOSTFILE=nodes))
    expect_in([" -n 5 ", "l:4,m:1"], line_of("p", LSB_MCPU_HOSTS="l 4 m 1"))
    expect_in([" -n 8 "], line_of("p", SLURM_JOB_ID=1, SLURM_NTASKS=8))
    expect_in([" -n 7 "], line_of("p", SLURM_JOB_ID=1, SLURM_TASKS_PER_NODE="2(x3),1"))
    expect_in([" -n 2 "], line_of("-n", 2, "p", SLURM_JOB_ID=1, SLURM_NTASKS=8))


def chooses_srun():
    path = f"{folder}/slurm:{os.environ['PATH']}"
    srun = str(folder / "slurm/srun")
    line = line_of("--bind", "socket", "--gpus", 2, "p", launcher=srun, SLURM_JOB_ID=1, SLURM_NTASKS=4)
    expect_in([f"{srun} -n 4 ", "--mpi=pm", "--kill-on-bad-exit=1", "--cpu-bind=sockets", "--gpus-per-task=2"], line)
    if mpi == "openmpi":
        expect(line_of("p", launcher="", PATH=path, SLURM_JOB_ID=1, SLURM_NTASKS=4).split()[0] == srun, "srun is not chosen")
        line = line_of("p", launcher="", PATH=path, SLURM_JOB_ID=1, SLURM_NTASKS=4, LOCKSTEP_LAUNCHER=fake)
        expect(fake in line and srun not in line, line)


def forwards(number):
    def case():
        # as in a terminal: under nohup, for example, SIGHUP would be ignored
        job = subprocess.Popen([program, "--launcher", waits, "-n", "1", "p"], stdout=subprocess.PIPE, text=True,
                               env=environment(), preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
        job.stdout.readline()
        job.send_signal(number)
        output, _ = job.communicate(timeout=LIMIT_S)
        expect(job.returncode == 7, job.returncode)
        expect(output == f"got {number.name[3:]}\n", output)

    return case


def stops_and_continues():
    # in a process group of its own, as a shell makes one: in a group that no shell could continue, SIGTSTP does nothing
    job = subprocess.Popen([program, "--launcher", waits, "-n", "1", "p"], stdout=subprocess.PIPE, text=True,
                           env=environment(), preexec_fn=os.setpgrp)
    job.stdout.readline()
    job.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(job.pid, os.WUNTRACED)
    expect(os.WIFSTOPPED(status), f"status {status}: it is not stopped")
    said = job.stdout.readline()  # SIGCONT would discard a SIGTSTP that the shell has not yet received
    job.send_signal(signal.SIGCONT)
    job.communicate(timeout=LIMIT_S)
    expect(job.returncode == 7 and said == "got TSTP\n", f"{job.returncode}: {said}")


def ends_with_lockstep_run():
    job = subprocess.Popen([program, "--launcher", waits, "-n", "1", "p"], stdout=subprocess.PIPE, text=True,
                           env=environment())
    job.stdout.readline()
    job.kill()
    output, _ = job.communicate(timeout=LIMIT_S)
    expect(output == "got TERM\n", output)


def returns_the_exit_code():
    for code in (0, 3, 75):
        expect(start("--launcher", leaves, "-n", 1, "p", code).returncode == code, code)
    expect(start("--launcher", dies, "-n", 1, "p").returncode == 128 + signal.SIGKILL, "SIGKILL")


def passes_stdin():
    result = subprocess.run([program, "--launcher", reads, "-n", "1", "p"], input="one\ntwo\n", capture_output=True,
                            text=True, timeout=LIMIT_S, check=False, env=environment())
    expect(result.stdout == "one\ntwo\n", result.stdout)


def prints_lines():
    result = start("--launcher", measures, "-n", 2, "--progress-every", 0.3, "p")
    lines = [line for line in result.stderr.splitlines() if "slowest" in line]
    expect(1 <= len(lines) <= result.seconds / 0.3 + 1, f"{result.seconds} s: {result.stderr}")
    expect_in(["50 %, images_per_s 12000, loss 0.31", "communication 25 % of the time", "slowest rank 1 on n1 (waited 0.1 s"],
              lines[-1])  # the first line may come before the second rank has written
    expect("\x1b" not in result.stderr, "escape sequences without a terminal")
    quiet = start("--launcher", measures, "-n", 2, "--progress", "never", "p")
    expect("slowest" not in quiet.stderr and "no metrics" in quiet.stdout, quiet.stderr)
    elsewhere = start("--launcher", measures, "-n", 2, "-H", "nowhere1,nowhere2", "p")
    expect("no metrics" in elsewhere.stdout, "ranks on other hosts cannot write to a temporary file of this one")
    silent = start("--launcher", leaves, "-n", 1, "--progress-every", 0.1, "p", 0)
    expect("communication" not in silent.stderr, silent.stderr)


def keeps_the_users_metrics():
    """Records of an earlier job in the same files are not shown."""
    file = folder / "mine.jsonl"
    rank0 = folder / "mine.rank0.jsonl"
    rank0.write_text(json.dumps({"time": 1.0, "elapsed_s": 1, "values": {"old": 1}}) + "\n")
    result = start("--launcher", measures, "-n", 2, "--progress-every", 0.3, "p", LOCKSTEP_METRICS=file)
    expect("slowest rank 1" in result.stderr and "old" not in result.stderr, result.stderr)
    expect(len(rank0.read_text().splitlines()) > 1, "the file of the user is not there")


def on_terminal(*arguments, **variables):
    """What lockstep-run writes to a terminal."""
    main, side = pty.openpty()
    job = subprocess.Popen([program, *map(str, arguments)], stdin=side, stdout=side, stderr=side,
                           env=environment(**variables))
    os.close(side)
    output, end = b"", time.monotonic() + LIMIT_S
    while time.monotonic() < end and select.select([main], [], [], LIMIT_S)[0]:
        try:
            part = os.read(main, 65536)
        except OSError:  # EIO: all have closed it
            break
        if not part:
            break
        output += part
    os.close(main)
    expect(job.wait(timeout=LIMIT_S) == 0, output)
    return output.decode()


def shows_a_live_view():
    arguments = ("--launcher", measures, "-n", 2, "p")
    text = on_terminal(*arguments, TERM="xterm")
    expect_in(["] 50 %", "loss 0.31", "slowest rank 1", "\x1b[32m#", "A\r\x1b[J", "step\r\n"], text)
    expect(text.rstrip().endswith("last line") or text.endswith("\x1b[J"), f"the status area is left: {text!r}")
    plain = on_terminal(*arguments, TERM="xterm", NO_COLOR=1)
    expect_in(["[###", "\x1b[J"], plain)
    expect("\x1b[32m" not in plain, "colours with NO_COLOR")
    dumb = on_terminal("--progress-every", 0.3, *arguments, TERM="dumb")
    expect("\x1b" not in dumb and re.search(r"lockstep-run: 0:\d\d:\d\d", dumb), dumb)


def starts_two_ranks():
    result = start("--launcher", mpiexec, "-n", 2, hello)
    expect(result.returncode == 0, result.stderr)
    expect(result.stdout == "2 replicas, sum of ids 1\n", result.stdout)
    found = start("-n", 2, hello)
    expect(found.stdout == "2 replicas, sum of ids 1\n", found.stderr)
    code = start("--launcher", mpiexec, "-n", 2, "sh", "-c", "exit 9")
    expect(code.returncode == 9, code.returncode)


FAKE = ["--launcher", fake]
CASES = [
    ("passes the words of the program unchanged", passes_words_unchanged),
    ("quotes the dry run for a shell", quotes_the_dry_run),
    ("adds the options of the launcher", adds_options_of_the_launcher),
    ("reads hosts and allocations", reads_allocations),
    ("chooses srun in an allocation of Slurm", chooses_srun),
    *((f"forwards {number.name}", forwards(number)) for number in (
        signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)),
    ("stops at SIGTSTP and goes on at SIGCONT", stops_and_continues),
    ("ends the launcher if it is killed", ends_with_lockstep_run),
    ("returns the exit code of the launcher", returns_the_exit_code),
    ("passes stdin", passes_stdin),
    ("prints lines of progress", prints_lines),
    ("keeps the metrics of the user", keeps_the_users_metrics),
    ("shows a live view on a terminal", shows_a_live_view),
    ("refuses a job without a number of ranks", refused([*FAKE, "p"], ["number of ranks is missing", "-n N"])),
    ("refuses a job without a program", refused(["-n", "2"], ["the program is missing"])),
    ("refuses zero ranks", refused(["-n", "0", "p"], ['-n/--ranks "0"', "from 1 to"])),
    ("refuses an unknown option", refused(["--rank", "2", "p"], ["--rank", "--help"])),
    ("preloads the drop-in", preloads_the_drop_in),
    ("refuses an unknown binding", refused(["-n", "2", "--bind", "thread", "p"], ['--bind "thread"', "none, core, socket, numa"])),
    ("refuses a malformed host", refused(["-H", "a:x", "p"], ['--hosts "a:x"', '"x"', "from 1 to"])),
    ("refuses more ranks than a job may have", refused(["-H", "a:1000000,b", "p"], ["the hosts have room for more than 1000000 ranks"])),
    ("refuses a missing host file", refused(["--hostfile", "/none", "p"], ['--hostfile "/none"', "cannot be read"])),
    ("refuses GPUs without srun", refused([*FAKE, "-n", "2", "--gpus", "1", "p"], ["--gpus 1", "only srun"])),
    ("refuses malformed variables of Slurm",
     refused([*FAKE, "p"], ["SLURM_TASKS_PER_NODE"], SLURM_JOB_ID=1, SLURM_TASKS_PER_NODE="2(y3)")),
    ("refuses the launcher of another library",
     refused(["--launcher", foreign, "-n", "2", "p"], ["belongs to another MPI library", foreign], code=1)),
    ("refuses a missing launcher",
     refused(["-n", "2", "p"], ['LOCKSTEP_LAUNCHER "/none"', "no such program"], code=1, LOCKSTEP_LAUNCHER="/none")),
]
if mpiexec:
    CASES.append(("starts two ranks", starts_two_ranks))

try:
    sys.exit(run_cases(CASES))
finally:
    shutil.rmtree(folder)
