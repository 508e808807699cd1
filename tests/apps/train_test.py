#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""lockstep-train as users run it: one hash per number of replicas, correct JSON, and clear errors.

train_test.py PART TRAIN OTHER_TRAIN DATA MPIEXEC [OPTION...]
PART is `most`, or `rest` for all pairs of model and optimizer, of which `most` takes one for fewer steps, or `gpus`. OTHER_TRAIN is the same program with a fold from left to right planted in place of the canonical tree; for `gpus` with FAKE_GPUS GPUs that are not there.
"""

import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from programs import Launcher, expect, expect_in, run_cases

part, train, other_train, data = sys.argv[1:5]
launcher = Launcher(sys.argv[5:])
FAST = ["--steps", {"gpus": "40", "most": "60", "rest": "60"}[part], "--global-batch", "240", "--quiet"]
SOURCE = []  # options that name the images


def run(ranks, *options, program=train, **how):
    return launcher.run(ranks, program, *SOURCE, *options, **how)


def hash_in(result):
    expect(result.returncode == 0, result.stderr)
    found = re.findall(r"^parameters (0x[0-9a-f]{16})$", result.stdout, re.MULTILINE)
    expect(len(found) == 1, "one rank prints the hash:\n" + result.stdout)
    return found[0]


def hash_of(ranks, replicas, *options, program=train, **how):
    return hash_in(run(ranks, *FAST, "--replicas-per-rank", replicas, *options, program=program, **how))


def loosely_packed(source, target):
    """The same images in `target`, in a form that every rank unpacks quickly."""
    for file in pathlib.Path(source).glob("*.gz"):
        pathlib.Path(target, file.name).write_bytes(gzip.compress(gzip.decompress(file.read_bytes()), compresslevel=0))
    return target


LAYOUTS = {4: ["4", "2,2", "2,1,1", "1,1,1,1"], 3: ["3", "2,1", "1,1,1"]}


def one_hash(replicas, *options):
    hashes = {layout: hash_of(layout.count(",") + 1, layout, *options) for layout in LAYOUTS[replicas]}
    expect(len(set(hashes.values())) == 1, f"hashes differ: {hashes}")
    return next(iter(hashes.values()))


def layouts_case(model, optimizer):
    def case():
        four = one_hash(4, "--model", model, "--optimizer", optimizer)
        three = one_hash(3, "--model", model, "--optimizer", optimizer)
        expect(four != three, "another number of replicas must change the hash")

    return case


def other_sums_change_the_hash():
    honest = hash_of(1, "4")
    expect(hash_of(1, "4", "--seed", "2") != honest, "another seed must change the hash")
    expect(hash_of(1, "4", program=other_train) != honest, "another order of additions must change the hash")


def reports_as_json():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "out.json")
        result = run(2, "--steps", "20", "--replicas-per-rank", "2,1", "--json", file)
        expect(result.returncode == 0, result.stderr)
        summary = json.loads(file.read_text())
    expect(summary["layout"] == [2, 1] and summary["replicas"] == 3 and summary["steps"] == 20, summary)
    expect(len(summary["loss"]) == 20 and summary["loss"][-1] < summary["loss"][0], summary)
    expect(0.1 < summary["test_accuracy"] <= 1 and summary["images_per_second"] > 0, summary)
    expect(0 <= summary["communication_share"] < 1 and 0 <= summary["input_wait_share"] < 1, summary)
    expect(summary["parameters"] in result.stdout, "the hash is printed too")
    expect(result.stdout.count("lockstep-train:") == 1, "one rank prints the header:\n" + result.stdout)


def reads_variables_and_files_below_the_command_line():
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "train.conf")
        config.write_text("steps=3\nseed=9\nglobal-batch=64\n")
        out = pathlib.Path(folder, "out.json")
        env = dict(os.environ, LOCKSTEP_TRAIN_STEPS="4", LOCKSTEP_TRAIN_GLOBAL_BATCH="32")
        result = run(1, "--config", config, "--steps", "5", "--json", out, env=env)
        expect(result.returncode == 0, result.stderr)
        expect("global batch 32" in result.stdout, result.stdout)
        expect(json.loads(out.read_text())["steps"] == 5, "the command line wins")


def refuses(parts, *options, ranks=3, code=2, **variables):
    """Every rank detects the error and one prints it, quickly."""

    def case():
        result = launcher.run(ranks, train, *options, env=dict(os.environ, **variables))
        expect(result.returncode == code, f"exit code {result.returncode}, not {code}:\n{result.stderr}")
        expect_in(parts, result.stderr)
        expect(result.stderr.count("lockstep-train: ") == 1, "printed more than once:\n" + result.stderr)
        expect(result.stdout == "", result.stdout)

    return case


def refuses_a_placeholder_of_the_option_parser():
    # the parser would put the value in the place of the word in its error, for ever
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "train.conf")
        config.write_text("seed=a %value%\n")
        for place, arguments in {f'--config "{config}"': ["--config", config], "command line": ["--seed=%value%"]}.items():
            result = launcher.run(2, train, *arguments)
            expect(result.returncode == 2, result.stderr)
            expect_in([f'{place}: names and values of options must not have "%value%"'], result.stderr)


def refuses_a_line_of_a_configuration_file():
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "train.conf")
        config.write_text("hello world\n")
        result = launcher.run(2, train, "--config", config)
        expect(result.returncode == 2, result.stderr)
        expect_in([f'--config "{config}": "hello world" is not NAME=VALUE'], result.stderr)
        expect("--help" not in result.stderr, result.stderr)


def refuses_options_that_differ():
    for first, second, parts in (
            (["--seed", "1"], ["--seed", "2"], '--seed is "1" on rank 0, but "2" on rank 1'),
            ([], ["--global-batch", "64"], '--global-batch is not given on rank 0, but "64" on rank 1'),
            (["--help"], [], '--help is "yes" on rank 0, but not given on rank 1')):
        command = [*launcher.command, "-n", "1", train, *SOURCE, *first, "--quiet", ":", "-n", "2", train, *SOURCE, *second]
        result = subprocess.run([str(a) for a in command], capture_output=True, text=True, timeout=100, check=False)
        expect(result.returncode == 2, f"exit code {result.returncode}:\n{result.stderr}")
        expect_in(["lockstep-train: mismatch: " + parts], result.stderr)
        expect(result.stderr.count("mismatch") == 1, "printed more than once:\n" + result.stderr)
        expect("parameters" not in result.stdout, result.stdout)


def shows_help_once():
    result = launcher.run(2, train, "--help")
    expect(result.returncode == 0, result.stderr)
    expect(result.stdout.count("Usage:") == 1, result.stdout)
    expect_in(["Data and model", "Layout", "--replicas-per-rank", "LOCKSTEP_TRAIN_EPOCHS"], result.stdout)


def damaged(change, parts):
    """Expects an error for a copy of the data that `change(folder)` has damaged."""

    def case():
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, "data")
            copy.mkdir()
            for name in ("train", "t10k"):
                count = 100
                images = bytes.fromhex("00000803") + count.to_bytes(4, "big") + (28).to_bytes(4, "big") * 2 + bytes(count * 784)
                labels = bytes.fromhex("00000801") + count.to_bytes(4, "big") + bytes(count)
                (copy / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
                (copy / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
            change(copy)
            refuses(parts, "--data", str(copy), ranks=2, code=5)()

    return case


def rewrite(name, content):
    return lambda folder: (folder / name).write_bytes(content((folder / name).read_bytes()))


def buckets_do_not_change_the_hash():
    hashes = {hash_of(ranks, replicas, "--bucket-bytes", size) for ranks, replicas in ((1, "4"), (2, "2,2"), (4, "1")) for size in ("1", "1000000000")}
    expect(len(hashes) == 1, f"hashes differ: {hashes}")


def shift_addresses():
    """Addresses differ in every process; the views that replicas compute on stay aligned, so the bits stay the same."""
    hashes = {hash_of(1, "4")}
    for padding in ("1", "4097", "123456"):
        env = dict(os.environ, MALLOC_TOP_PAD_=padding, MALLOC_PERTURB_=str(1 + len(padding)))
        env["UNRELATED"] = "x" * (int(padding) % 5000)  # moves the stack
        result = run(1, *FAST, "--replicas-per-rank", "4", env=env)
        expect(result.returncode == 0, result.stderr)
        hashes.update(re.findall(r"^parameters (0x[0-9a-f]{16})$", result.stdout, re.MULTILINE))
    expect(len(hashes) == 1, f"hashes differ: {hashes}")


def gpus(number, **variables):
    return dict(os.environ, FAKE_GPUS=str(number), **variables)


def gpus_case(optimizer):
    """Replicas and ranks share GPUs: NCCL between GPUs, and host memory between ranks with the same GPU."""

    def case():
        options = ["--optimizer", optimizer]
        expected = hash_of(1, "4", *options)
        for layout, number in (("4", 2), ("2,2", 2), ("2,1,1", 3), ("2,1,1", 2)):
            found = hash_of(layout.count(",") + 1, layout, *options, "--device", "gpu", program=other_train,
                            env=gpus(number, LOCKSTEP_ORDER="canonical"))
            expect(found == expected, f"{found} on {number} GPUs as {layout}, but {expected} on CPUs")

    return case


def one_hash_by_cublas():
    """The model on GPUs: not the host's bits, but the same bits on any layout, and about the same loss."""
    env = gpus(2, FAKE_CUBLAS="1", LOCKSTEP_ORDER="canonical")
    options = ["--device", "gpu", "--steps", "10", "--global-batch", "240"]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "out.json")

        def result_of(layout, *more):
            result = run(layout.count(",") + 1, *options, *more, "--replicas-per-rank", layout, "--json", file, program=other_train, env=env)
            return result, hash_in(result), json.loads(file.read_text())

        result, on_cpus, expected = result_of("4", "--arithmetic", "cpu")
        expect_in(["arithmetic on CPUs"], result.stdout)
        expect(expected["arithmetic"] == "cpu" and result.stderr == "", result.stderr)
        hashes = {}
        for layout in ("4", "2,2", "2,1,1"):
            result, hashes[layout], found = result_of(layout)
            expect_in(["arithmetic on GPUs by a fake cuBLAS"], result.stdout)
            expect(found["arithmetic"] == "gpu" and "computes on CPUs" not in result.stderr, result.stderr)
            expect(all(abs(a - b) < 1e-4 for a, b in zip(found["loss"], expected["loss"])), (found["loss"], expected["loss"]))
        expect(len(set(hashes.values())) == 1 and on_cpus not in hashes.values(), f"{hashes}, and {on_cpus} on CPUs")


def computes_on_cpus(line, *options, **variables):
    """One line gives the reason why the model is not on the GPUs."""

    def case():
        result = run(2, "--steps", "3", "--device", "gpu", *options, program=other_train, env=gpus(2, **variables))
        expect(result.returncode == 0, result.stderr)
        expect(result.stderr == line + "\n", result.stderr)
        expect_in(["parameters on GPUs, arithmetic on CPUs"], result.stdout)

    return case


def leaves_the_order_to_nccl():
    options = ["--device", "gpu"]
    hashes = {hash_of(2, "2,2", *options, program=other_train, env=gpus(4, **order)) for order in ({}, {"LOCKSTEP_ORDER": "canonical"})}
    expect(len(hashes) == 2, "the order of NCCL must change the hash")


def says_that_gpus_are_used():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "out.json")
        options = ["--steps", "3", "--replicas-per-rank", "4,1", "--json", file]
        result = run(2, *options, "--device", "gpu", program=other_train, env=gpus(4))
        expect(result.returncode == 0, result.stderr)
        expect_in(["rank 0 has gpu:0, gpu:0#1, gpu:1, gpu:1#1 of 4 GPUs: "], result.stdout)
        expect(json.loads(file.read_text())["device"] == "gpu", file.read_text())
        result = run(2, *options, program=other_train, env=gpus(4))
        expect("GPU" not in result.stdout, result.stdout)
        expect(json.loads(file.read_text())["device"] == "cpu", file.read_text())


def trains_on_cpus(result, rank):
    """One line gives the reason, and nothing else changes."""
    expect(hash_in(result) == hash_of(2, "2,1"), "another hash than without the option:\n" + result.stdout)
    lines = result.stderr.splitlines()
    expect(len(lines) == 1, "not one line:\n" + result.stderr)
    expect_in([f"lockstep-train: rank {rank}: no GPU: ", "; training on CPUs"], lines[0])


def needs_gpus_on_every_rank():
    count_of_rank = 'FAKE_GPUS=$((1 - ${OMPI_COMM_WORLD_RANK:-$PMI_RANK})) exec "$@"'  # 1, 0
    options = [*FAST, "--replicas-per-rank", "2,1", "--device", "gpu"]
    trains_on_cpus(launcher.run(2, "sh", "-c", count_of_rank, "sh", other_train, *SOURCE, *options), rank=1)


def goes_on_without_gpus():
    env = dict(os.environ, CUDA_VISIBLE_DEVICES="", LOCKSTEP_TRAIN_DEVICE="gpu")
    trains_on_cpus(run(2, *FAST, "--replicas-per-rank", "2,1", env=env), rank=0)


IMAGES = "train-images-idx3-ubyte.gz"
PAIRS = {"most": [("mlp", "sgd")], "rest": [("mlp", "adam"), ("cnn", "sgd"), ("cnn", "adam")], "gpus": []}[part]
cases = [(f"{model} with {optimizer} ends in one hash for all layouts", layouts_case(model, optimizer)) for model, optimizer in PAIRS]
if part == "gpus":
    cases = [(f"mlp with {optimizer} ends in the hash of CPUs on GPUs", gpus_case(optimizer))
             for optimizer in (["sgd"] if "QUICK_TESTS" in os.environ else ["sgd", "adam"])]
    cases += [
        ("the order of NCCL changes the hash", leaves_the_order_to_nccl),
        ("the report says that GPUs are used", says_that_gpus_are_used),
        ("the mlp on GPUs ends in one hash for all layouts", one_hash_by_cublas),
        ("the mlp computes on CPUs if there is no cuBLAS",
         computes_on_cpus("lockstep-train: rank 0: no cuBLAS for fake GPUs; the mlp computes on CPUs")),
        ("the cnn computes on CPUs", computes_on_cpus("lockstep-train: the cnn computes on CPUs", "--model", "cnn", FAKE_CUBLAS="1")),
        ("arithmetic on GPUs is refused without them", refuses(["--arithmetic", "gpu", "--device gpu"], "--arithmetic", "gpu")),
        ("all ranks train on CPUs if one has no GPU", needs_gpus_on_every_rank),
        ("a machine without GPUs trains on CPUs", goes_on_without_gpus),
        ("a device that does not exist is refused", refuses(["--device", "tpu", "cpu, gpu"], "--device", "tpu")),
    ]
cases += [] if part != "most" else [
    ("another seed, number of replicas or order of additions changes the hash", other_sums_change_the_hash),
    ("the size of buckets does not change the hash", buckets_do_not_change_the_hash),
    ("buckets of 0 bytes are refused", refuses(["--bucket-bytes", "0"], "--bucket-bytes", "0")),
    ("addresses do not change the hash", shift_addresses),
    ("the summary is written as JSON", reports_as_json),
    ("options come from the command line, then variables, then a file", reads_variables_and_files_below_the_command_line),
    ("options that differ between ranks are refused", refuses_options_that_differ),
    ("help is shown once", shows_help_once),
    ("an unknown option is refused", refuses(["--bogus"], "--bogus", "1")),
    ("an option without a value is refused", refuses(["--data has no value: the next word is the option \"--steps\""], "--data", "--steps", "1")),
    ("an abbreviated option is refused", refuses(["unrecognised option '--epoch'"], "--epoch", "1")),
    ("a variable is named that sets a wrong value", refuses(["variable LOCKSTEP_TRAIN_EPOCHS \"many\": give"], LOCKSTEP_TRAIN_EPOCHS="many")),
    ("a model that does not exist is refused", refuses(["--model", "resnet", "mlp, cnn"], "--model", "resnet")),
    ("an empty batch is refused", refuses(["--global-batch", "0"], "--global-batch", "0")),
    ("a batch that is not a number is refused", refuses(["--global-batch", "many"], "--global-batch", "many")),
    ("a batch larger than the data is refused",
     refuses(["--global-batch", "70000", "60000"], "--data", "synthetic", "--global-batch", "70000", ranks=2)),
    ("a list of replicas of another length is refused",
     refuses(["--replicas-per-rank", "2,1", "2 entries", "3 ranks"], "--replicas-per-rank", "2,1")),
    ("a rank without replicas is refused", refuses(["--replicas-per-rank", "2,0,1"], "--replicas-per-rank", "2,0,1")),
    ("a JSON file that cannot be written is refused", refuses(["--json", "/nowhere/x.json"], "--json", "/nowhere/x.json")),
    ("a JSON file that is a device is refused", refuses(['--json "/dev/null"', "it is not a regular file"], "--json", "/dev/null")),
    ("a JSON file that is a link is refused", refuses(['--json "/dev/stdout"', "it is a symbolic link"], "--json", "/dev/stdout")),
    ("a folder as configuration file is refused", refuses(["--config", "cannot be read"], "--config", "/tmp")),
    ("a configuration file that is missing is refused", refuses(["--config", "/nowhere"], "--config", "/nowhere")),
    ("a line of a configuration file that is not NAME=VALUE is refused", refuses_a_line_of_a_configuration_file),
    ("a word that the parser of options replaces in its errors is refused", refuses_a_placeholder_of_the_option_parser),
    ("--steps with --epochs is refused", refuses(["--steps: ", "--epochs"], "--steps", "1", "--epochs", "1")),
    ("--keep-last without a directory is refused", refuses(["--keep-last: ", "give --checkpoint-dir"], "--keep-last", "1")),
    ("a missing directory is named", refuses(["--data \"/nowhere\": ", "/nowhere/train-images", "--data synthetic"], "--data", "/nowhere", code=5)),
    ("a missing file is named", damaged(lambda folder: (folder / IMAGES).unlink(), [IMAGES])),
    ("a truncated file is named", damaged(rewrite(IMAGES, lambda content: content[: len(content) // 2]), [IMAGES, "data_loss"])),
    ("a corrupt file is named", damaged(rewrite(IMAGES, lambda content: content[:-8] + bytes(8)), [IMAGES, "data_loss"])),
    ("a wrong magic number is named", damaged(rewrite(IMAGES, lambda content: gzip.compress(b"\x01" + gzip.decompress(content)[1:])), [IMAGES])),
    ("files that do not match are named",
     damaged(lambda folder: shutil.copy(folder / "train-labels-idx1-ubyte.gz", folder / IMAGES), [IMAGES])),
]

with tempfile.TemporaryDirectory() as loose:
    SOURCE += ["--data", loosely_packed(data, loose) if pathlib.Path(data).is_dir() else "synthetic"]
    sys.exit(run_cases(cases))
