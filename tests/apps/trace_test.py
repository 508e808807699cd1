#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Traces and metrics of programs under mpiexec.

trace_test.py most|rest TRACE TRACED MPIEXEC [OPTION...]
"""

import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from programs import Launcher, expect, expect_in, run_cases  # noqa: E402

trace_program, traced = (os.path.abspath(argument) for argument in sys.argv[2:4])
launcher = Launcher(sys.argv[4:])
STEPS = 10
CLOCK_US = 1000  # each rank reads the counter of its processor, and converts it by a scale of its own


def variables(**others):
    return dict(os.environ, LOCKSTEP_RECORDER="0", **others)


def read_trace(directory):
    paths = glob.glob(os.path.join(directory, "lockstep-*.trace.json"))
    expect(len(paths) == 1, f"{os.listdir(directory)}")
    with open(paths[0], encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    with open(paths[0].replace(".trace.json", ".summary.txt"), encoding="utf-8") as file:
        return events, file.read()


def end_of(event):
    return event["ts"] + event["dur"]


def check_nesting(events):
    """The slices of a thread contain each other or are disjoint."""
    threads = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)
    for slices in threads.values():
        slices.sort(key=lambda event: (event["ts"], -event["dur"]))
        open_slices = []
        for event in slices:
            while open_slices and end_of(open_slices[-1]) <= event["ts"] + 0.0015:  # three decimals
                open_slices.pop()
            expect(not open_slices or end_of(event) <= end_of(open_slices[-1]) + 0.0015, f"{event} in {open_slices[-1:]}")
            open_slices.append(event)


def check_operations(events, ranks):
    """All ranks have all operations. None ends before the last rank has begun, since the ranks have one clock."""
    gradients = [event for event in events if event.get("cat") == "operation" and event["ph"] == "X" and event["name"] == "gradient"]
    expect(len(gradients) == ranks * STEPS, f"{len(gradients)} operations")
    times = collections.defaultdict(list)
    for event in gradients:
        arguments = event["args"]
        expect(arguments["communicator"] == "world" and arguments["dtype"] == "f32" and arguments["elements"] == 1000 and
               arguments["bytes"] == 4000 and re.fullmatch(r"apps/traced\.cpp:\d+", arguments["place"]), str(event))
        times[arguments["sequence"]].append((event["pid"], event["ts"], end_of(event)))
    for of_ranks in times.values():
        expect(sorted(rank for rank, _, _ in of_ranks) == list(range(ranks)), str(of_ranks))
        expect(min(end for _, _, end in of_ranks) > max(begin for _, begin, _ in of_ranks) - CLOCK_US, str(of_ranks))


def check_arrivals(events, summary):
    """Which rank comes last to an operation, and how long after the others; the other ranks wait for it at least until then."""
    matches = collections.defaultdict(list)
    for event in events:
        if event.get("cat") == "operation" and event["ph"] == "X" and "last_rank" in event["args"]:
            matches[tuple(event["args"][name] for name in ("communicator", "epoch", "sequence"))].append(event)
    lateness = collections.defaultdict(list)
    for match in matches.values():
        match.sort(key=lambda event: event["ts"])
        late_us = match[-1]["ts"] - match[-2]["ts"]
        for event in match:
            arguments = event["args"]
            expect(abs(arguments["lateness_us"] - late_us) < 0.0025, str(match))
            expect(late_us < 0.0025 or arguments["last_rank"] == match[-1]["pid"], str(match))
            if event["name"] == "gradient" and event is not match[-1]:
                waits = [wait for wait in events if wait["name"] == f"wait for rank {arguments['last_rank']}" and wait["pid"] == event["pid"] and
                         wait["ts"] == event["ts"]]
                expect(len(waits) == 1 and end_of(waits[0]) > match[-1]["ts"] - CLOCK_US, f"{waits} in {match}")
        lateness[match[-1]["args"]["last_rank"]].append(late_us)
    stated = [(int(rank), int(count), int(of_all), float(most) * {"s": 1e6, "ms": 1e3, "us": 1}[unit]) for rank, count, of_all, most, unit in
              re.findall(r"  rank (\d+): in (\d+) of (\d+) operations, by .* and (\S+) (s|ms|us) at most", summary)]
    expect([rank for rank, *_ in stated] == sorted(lateness, key=lambda rank: -sum(lateness[rank])), f"{stated} but {lateness}")
    for rank, count, of_all, most_us in stated:
        expect((count, of_all) == (len(lateness[rank]), len(matches)), f"{stated} but {lateness}")
        expect(abs(most_us - max(lateness[rank])) <= 0.1 * most_us + 0.1, f"{stated} but {lateness}")


def check_late_rank(events):
    """The call of the late rank begins when its pause has ended."""
    pauses = [event for event in events if event["ph"] == "X" and event["name"] == "forward" and event["pid"] == 1]
    calls = [event for event in events if event["ph"] == "X" and event["name"] == "gradient" and event["pid"] == 1]
    for pause, call in zip(sorted(pauses, key=end_of), sorted(calls, key=end_of)):
        expect(pause["dur"] >= 100_000 - CLOCK_US and call["ts"] >= end_of(pause) - CLOCK_US, f"{pause} before {call}")


def check_flows(events, ranks):
    flows = collections.defaultdict(list)
    slices = {(event["pid"], event["tid"], event["ts"]) for event in events if event["ph"] == "X" and event["cat"] == "operation"}
    for event in events:
        if event["ph"] in "stf":
            expect((event["pid"], event["tid"], event["ts"]) in slices, f"no operation at {event}")
            flows[event["id"]].append(event)
    expect(len(flows) >= 3 * STEPS, f"{len(flows)} flows")
    for parts in flows.values():
        phases = "".join(event["ph"] for event in parts)
        expect(phases == "s" + "t" * (len(parts) - 2) + "f", phases)
        expect([event["ts"] for event in parts] == sorted(event["ts"] for event in parts), str(parts))
        expect(len({event["pid"] for event in parts}) == len(parts) <= ranks, str(parts))


def check_other_events(events, ranks):
    named = collections.Counter((event["ph"], event["name"]) for event in events)
    for name in ("training step", "forward"):
        expect(named["X", name] == ranks * STEPS, f"{named['X', name]} {name}")
    expect(named["X", "run"] == ranks, str(named))
    expect(named["b", "send to rank 1"] == 1 and named["e", "recv from rank 0"] == 1, str(named))


def is_whole(ranks):
    def case():
        with tempfile.TemporaryDirectory() as work:
            directory = os.path.join(work, "made by the ranks")
            result = launcher.run(ranks, traced, "1", env=variables(LOCKSTEP_TRACE=directory))
            expect(result.returncode == 0, result.stderr)
            events, summary = read_trace(directory)
            expect(f"the trace of {ranks} ranks is {directory}/lockstep-" in result.stderr, result.stderr)
            check_nesting(events)
            check_operations(events, ranks)
            check_flows(events, ranks)
            check_other_events(events, ranks)
            check_arrivals(events, summary)
            check_late_rank(events)
            expect_in([f": {ranks} ranks on 1 host, ", 'all_reduce sum of f32 [1000] named "gradient" at apps/traced.cpp:'], summary)
            expect("note:" not in summary, summary)
            again = subprocess.run([trace_program, directory], capture_output=True, text=True, timeout=100, check=False)
            expect(again.returncode == 0 and again.stdout.startswith(summary), again.stdout + again.stderr)
    return case


def without_a_launcher():
    """MPI_Finalize changes the variables by which a rank names its job."""
    with tempfile.TemporaryDirectory() as directory:
        result = subprocess.run([traced], env=variables(LOCKSTEP_TRACE=directory), capture_output=True, text=True, timeout=100, check=False)
        expect(result.returncode == 0, result.stderr)
        expect(f"the trace of 1 rank is {directory}/lockstep-" in result.stderr, result.stderr)
        read_trace(directory)


def after_a_failure():
    """Rank 0 ends without a word; its file and those of the others are merged by hand."""
    with tempfile.TemporaryDirectory() as directory:
        result = launcher.run(2, traced, "-1", "dies", env=variables(LOCKSTEP_TRACE=directory))
        expect(result.returncode != 0 and not glob.glob(directory + "/*.json"), str(result.returncode) + str(os.listdir(directory)))
        merged = subprocess.run([trace_program, directory], capture_output=True, text=True, timeout=100, check=False)
        expect(merged.returncode == 0, merged.stderr)
        expect("note: rank 0 has not closed its file" in merged.stdout, merged.stdout)
        events, _ = read_trace(directory)
        check_nesting(events)
        check_operations(events, 2)


def after_an_exception():
    with tempfile.TemporaryDirectory() as directory:
        result = launcher.run(2, traced, "-1", "throws", env=variables(LOCKSTEP_TRACE=directory))
        expect(result.returncode != 0, "exit code 0")
        merged = subprocess.run([trace_program, directory], capture_output=True, text=True, timeout=100, check=False)
        expect(merged.returncode == 0 and "gradient" in merged.stdout, merged.stdout + merged.stderr)


def read_metrics(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def metrics_are_json_lines():
    with tempfile.TemporaryDirectory() as directory:
        result = launcher.run(2, traced, "1", "pauses", env=variables(LOCKSTEP_METRICS=directory + "/metrics.jsonl"))
        expect(result.returncode == 0, result.stderr)
        expect(sorted(os.listdir(directory)) == ["metrics.rank0.jsonl", "metrics.rank1.jsonl"], str(os.listdir(directory)))
        for rank in range(2):
            lines = read_metrics(f"{directory}/metrics.rank{rank}.jsonl")
            last = lines[-1]
            expect(3 <= len(lines) <= last["elapsed_s"] + 2, f"{len(lines)} lines")  # one a second, and the last one
            times = [line["time"] for line in lines]
            expect(times == sorted(times), str(times))
            expect(list(last) == ["time", "job", "rank", "ranks", "host", "pid", "elapsed_s", "operations", "communication_s",
                                  "waiting_s", "values"], str(list(last)))
            expect((last["rank"], last["ranks"], last["values"]["loss"], last["values"]['not "finite"']) == (rank, 2, 0.1, None), str(last))
            reduces = last["operations"]["all_reduce"]
            expect(reduces["calls"] >= 2 * STEPS and reduces["bytes"] >= 2 * STEPS * 4000 and reduces["seconds"] > 0, str(reduces))
            expect(("send" in last["operations"]) == (rank == 0) and ("recv" in last["operations"]) == (rank == 1), str(last))
            expect(0 < last["waiting_s"] <= last["communication_s"] <= last["elapsed_s"], str(last))
            expect(rank == 1 or last["waiting_s"] > 0.019 * STEPS / 2, str(last))  # it waits 0.1 s in each step


def metrics_for_prometheus():
    with tempfile.TemporaryDirectory() as directory:
        result = launcher.run(2, traced, "1", env=variables(LOCKSTEP_METRICS=directory + "/lockstep.prom"))
        expect(result.returncode == 0, result.stderr)
        expect(sorted(os.listdir(directory)) == ["lockstep.rank0.prom", "lockstep.rank1.prom"], str(os.listdir(directory)))
        with open(directory + "/lockstep.rank1.prom", encoding="utf-8") as file:
            lines = file.read().splitlines()
        typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
        helped = {line.split()[2] for line in lines if line.startswith("# HELP ")}
        sample = re.compile(r'(\w+)\{job="[^"]+",rank="1",host="[^"]+"(,\w+="(?:[^"\\]|\\.)*")?\} (\S+)')
        found = {}
        for line in lines:
            if not line.startswith("#"):
                match = sample.fullmatch(line)
                expect(match and match.group(1) in typed & helped, line)
                found[match.group(1) + (match.group(2) or "")] = float(match.group(3))
        expect(found['lockstep_value,name="loss"'] == 0.1 and 'lockstep_value,name="not \\"finite\\""' in found, str(found))
        expect(found['lockstep_operations_total,operation="all_reduce"'] >= 2 * STEPS and found["lockstep_ranks"] == 2, str(found))


def refuses(text, **values):
    def case():
        result = launcher.run(2, traced, env=variables(**values))
        expect(result.returncode == 2, f"exit code {result.returncode}: {result.stderr}")
        expect(text in result.stderr, result.stderr)
    return case


def refuses_arguments(text, code, *arguments):
    def case():
        result = subprocess.run([trace_program, *arguments], capture_output=True, text=True, timeout=100, check=False)
        expect(result.returncode == code and text in result.stderr, f"{result.returncode}: {result.stderr}")
    return case


def damaged_files_are_named():
    with tempfile.TemporaryDirectory() as directory:
        with open(directory + "/lockstep-1-rank0.trace", "w", encoding="utf-8") as file:
            file.write("something else")
        refuses_arguments("/lockstep-1-rank0.trace is damaged at byte 0", 1, directory)()


most = [
    ("the trace of two ranks is whole", is_whole(2)),
    ("the trace of a program without a launcher is merged", without_a_launcher),
    ("metrics are JSON lines", metrics_are_json_lines),
    ("metrics for Prometheus", metrics_for_prometheus),
    ("LOCKSTEP_TRACE that cannot be written", refuses('LOCKSTEP_TRACE="/proc/none": the file /proc/none/lockstep-', LOCKSTEP_TRACE="/proc/none")),
    ("lockstep-trace without files", refuses_arguments("/proc/self/task has no trace files; set LOCKSTEP_TRACE", 1, "/proc/self/task")),
    ("lockstep-trace without a directory", refuses_arguments("expected a directory", 2)),
    ("lockstep-trace with an unknown option", refuses_arguments("--jobs: unknown option", 2, "--jobs", "x")),
    ("lockstep-trace with damaged files", damaged_files_are_named),
]
rest = [
    ("the trace of three ranks is whole", is_whole(3)),
    ("files can be merged after a failure", after_a_failure),
    ("files can be merged after an exception", after_an_exception),
    ("LOCKSTEP_TRACE that is empty", refuses('LOCKSTEP_TRACE="": expected the name of a directory', LOCKSTEP_TRACE="")),
    ("LOCKSTEP_METRICS that cannot be written",
     refuses('LOCKSTEP_METRICS="/proc/none/m": the file /proc/none/m.rank', LOCKSTEP_METRICS="/proc/none/m")),
    ("LOCKSTEP_METRICS.prom that cannot be written", refuses('LOCKSTEP_METRICS="/proc/none/m.prom": ', LOCKSTEP_METRICS="/proc/none/m.prom")),
    ("LOCKSTEP_METRICS that is a directory", refuses("give the name of a file", LOCKSTEP_METRICS="/tmp/")),
    ("LOCKSTEP_METRICS that is empty", refuses('LOCKSTEP_METRICS="": expected the name of a file', LOCKSTEP_METRICS="")),
]
sys.exit(run_cases(most if sys.argv[1] == "most" else rest))
