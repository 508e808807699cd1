#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Plots a result file of lockstep-perf or lockstep-train.

  lockstep-plot FILE.json [-o PICTURE]     FILE is what --json of lockstep-perf or lockstep-train wrote; - is standard input

PICTURE ends in .png, .svg or .pdf; the default is FILE.png. Needs matplotlib (Debian package python3-matplotlib).

Of lockstep-perf it shows time, bus bandwidth and, with --compare, the ratio to MPI or NCCL, over the size. Each call has a colour:
lockstep in it, the other library in a lighter shade; lines are dashed for calls in place; bands reach from the 10th to the 90th
percentile of the calls. With --list it shows a bar for each mode. Of lockstep-train it shows the loss, and the accuracy after each epoch.

Exit code: 0 success, 1 the picture cannot be drawn or written, 2 an argument is wrong, 5 FILE is not a result file.
"""

import argparse
import json
import os
import sys
import textwrap

FAILURE, USAGE, BAD_DATA = 1, 2, 5
DEBIAN_PYTHON = "/usr/bin/python3"
FORMATS = (".png", ".svg", ".pdf")

try:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import colors, lines, pyplot, ticker
except ImportError:
    # matplotlib of Debian's package is known to Debian's Python alone
    if os.path.realpath(sys.executable) != os.path.realpath(DEBIAN_PYTHON) and os.access(DEBIAN_PYTHON, os.X_OK):
        os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, *sys.argv])
    matplotlib = None  # it draws nothing, but says what it is

# Tableau's colours, which keep apart for most readers; the first call has the first one.
HUES = ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown", "tab:pink", "tab:olive", "tab:cyan", "tab:gray")
STYLE = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "0.9",
         "axes.axisbelow": True, "figure.facecolor": "white", "savefig.facecolor": "white", "legend.frameon": False,
         "lines.linewidth": 1.8, "lines.markersize": 5, "svg.fonttype": "none"}


class BadData(Exception):
    """The file is not a result file."""


def lighter(hue):
    """The shade of the other library."""
    return tuple(0.5 + 0.5 * part for part in colors.to_rgb(hue))


def counted(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def size_text(size, _=None):
    """8, 512, 4 Ki, 16 Mi."""
    for unit in ("", " Ki", " Mi", " Gi"):
        if size < 1024:
            return f"{size:g}{unit}"
        size /= 1024
    return f"{size:g} Ti"


def time_text(us, _=None):
    """200 ns, 1 us, 10 ms."""
    if us == 0:
        return "0"
    for unit, scale in (("s", 1e6), ("ms", 1e3), ("\u00b5s", 1)):
        if us >= scale:
            return f"{us / scale:g} {unit}"
    return f"{us * 1e3:g} ns"


def one_or_none(rows, key):
    """The value that all rows have; None if they differ."""
    values = {row.get(key) for row in rows}
    return values.pop() if len(values) == 1 else None


def peer_of(row):
    """The prefix of the fields of the other library, and its name."""
    for prefix, name in (("nccl_", "NCCL"), ("mpi_", "MPI")):
        if row.get(prefix + "time_us") is not None:
            return prefix, name
    return None, None


class Curve:
    """The rows of one call at one placement."""

    def __init__(self, rows):
        self.rows = sorted(rows, key=lambda row: row["bytes"])
        self.bytes = [row["bytes"] for row in self.rows]

    def column(self, key):
        return [float("nan") if row.get(key) is None else row[key] for row in self.rows]

    def rates(self, kind, key):
        """Bandwidth, GB/s, by the times in the column `key`; `kind` is busbw or algbw."""
        return [row[kind + "_gbs"] * row["time_us"] / us for row, us in zip(self.rows, self.column(key))]


def machine_texts(environment):
    parts = [environment["cpu"], counted(environment["cores_of_node"], "core"), " ".join(environment["mpi"].split()),
             f"kernels {environment['kernel_target']}"]
    return [", ".join(parts)] + ([environment["gpus"]["status"]] if environment.get("gpus") else [])


def titles(figure, title, details):
    """A title, and lines of details. Returns their height in inches."""
    height = figure.get_figheight()
    shown = [line for text in details for line in textwrap.wrap(text, 128)]
    figure.text(0.02, 1 - 0.12 / height, title, fontsize=13, fontweight="bold", va="top")
    figure.text(0.02, 1 - 0.42 / height, "\n".join(shown), fontsize=8.5, color="0.35", va="top", linespacing=1.4)
    return 0.5 + 0.165 * len(shown)


def perf_titles(figure, environment, rows, name):
    replicas = one_or_none(rows, "replicas_per_rank")
    job = f"{counted(environment['ranks'], 'rank')} on {counted(environment['nodes'], 'node')}"
    if replicas is not None and replicas > 1:
        job += f", {counted(replicas, 'replica')} each"
    memory = one_or_none(rows, "memory")
    details = [f"memory: {memory}"] if memory else []
    if peer_of(rows[0])[0] == "mpi_" and one_or_none(rows, "mpi_memory") != memory:
        details.append(f"MPI's memory: {one_or_none(rows, 'mpi_memory')}")
    details += [f"median of {counted(environment['iterations'], 'call')}, band from 10 % to 90 %",
                f"lockstep {environment['version']}, {environment['date']}"]
    return titles(figure, f"{name}, {job}", [*machine_texts(environment), "; ".join(details)])


def names_of_calls(rows):
    """The name of each row's call, as short as the rows permit, and what all calls have in common."""
    keys = ("collective", "dtype", "op", "form")
    common = [str(one_or_none(rows, key)) for key in keys if one_or_none(rows, key) not in (None, "blocking")]
    differing = [key for key in keys if len({row.get(key) for row in rows}) > 1]
    names = [" ".join(str(row[key]) for key in differing if row.get(key) is not None) or " ".join(common) for row in rows]
    return names, " ".join(common)


def line_of(where):
    return "--" if where else "-"


def size_axis(axes, sizes):
    """Ticks at powers of two that are at most nine, and have names without fractions."""
    sizes = sorted(sizes)
    axes.set_xscale("log", base=2)
    first, last = sizes[0].bit_length() - 1, (sizes[-1] - 1).bit_length()
    step = max(1, -(-(last - first) // 9))
    if step == 2 or step > 3:
        step = 3 * -(-step // 3)
    ticks = [2**power for power in range(first, last + 1, step)]
    axes.xaxis.set_major_locator(ticker.FixedLocator(ticks))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(size_text))


def draw_times(axes, curve, hue, dash, prefix, with_limit):
    if prefix:
        axes.fill_between(curve.bytes, curve.column(prefix + "p10_us"), curve.column(prefix + "p90_us"), color=lighter(hue), alpha=0.25,
                          linewidth=0)
        axes.plot(curve.bytes, curve.column(prefix + "time_us"), dash, color=lighter(hue), marker="s", markerfacecolor="white")
    if with_limit:
        axes.plot(curve.bytes, curve.column("limit_us"), ":", color=hue, linewidth=1.2)
    axes.fill_between(curve.bytes, curve.column("p10_us"), curve.column("p90_us"), color=hue, alpha=0.2, linewidth=0)
    axes.plot(curve.bytes, curve.column("time_us"), dash, color=hue, marker="o")


def draw_rates(axes, curve, hue, dash, prefix, kind):
    if prefix:
        axes.plot(curve.bytes, curve.rates(kind, prefix + "time_us"), dash, color=lighter(hue), marker="s", markerfacecolor="white")
    axes.plot(curve.bytes, curve.rates(kind, "time_us"), dash, color=hue, marker="o")


def ratio_axis(axes, name):
    """Logarithmic, since 0.5 and 2 are equally far from 1."""
    axes.set_yscale("log", base=2)
    low, high = axes.get_ylim()
    low, high = min(low, 0.8), max(high, 1.25)
    axes.set_ylim(low, high)
    few, many = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50), (0.2, 0.3, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5)
    axes.yaxis.set_major_locator(ticker.FixedLocator([each for each in (many if high / low < 6 else few) if low <= each <= high]))
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.axhline(1, color="0.3", linewidth=1)
    axes.axhspan(low, 1, color="tab:green", alpha=0.06, linewidth=0)
    axes.set_title(f"below 1 lockstep is faster than {name}", loc="right", fontsize=8.5, color="0.35", pad=3)
    axes.set_ylabel(f"time / {name}'s")


def legend_of(figure, calls, placements, peer, with_limit):
    """Hues name the calls; shades, dashes and dots say the rest, in grey if there are several calls. Returns the number of rows."""
    hue = HUES[0] if len(calls) == 1 else "0.35"
    places = {False: "out of place", True: "in place"}
    entries = []
    for where in placements:
        place = f", {places[where]}" if len(placements) > 1 else ""
        entries.append(lines.Line2D([], [], linestyle=line_of(where), color=hue, marker="o", label="lockstep" + place))
        if peer:
            entries.append(lines.Line2D([], [], linestyle=line_of(where), color=lighter(hue), marker="s", markerfacecolor="white",
                                        label=peer + place))
    if with_limit:
        entries.append(lines.Line2D([], [], linestyle=":", color=hue, linewidth=1.2, label="limit of the memory"))
    columns = len(entries) if len(entries) < 5 else 3
    figure.legend(handles=entries, loc="lower center", ncol=columns, fontsize=9, handlelength=3)
    used = -(-len(entries) // columns)
    if len(calls) == 1:
        return used
    names = [lines.Line2D([], [], color=HUES[k % len(HUES)], linewidth=4, label=name) for k, name in enumerate(calls)]
    columns = min(4, len(names))
    figure.legend(handles=names, loc="lower center", bbox_to_anchor=(0.5, (0.05 + 0.2 * used) / figure.get_figheight()), ncol=columns,
                  fontsize=9)
    return used + -(-len(names) // columns)


def plot_sweep(environment, rows):
    rows = [row for row in rows if row["bytes"] > 0 and row["time_us"]]
    if not rows:
        raise BadData("the file has no row with a size")
    names, common = names_of_calls(rows)
    calls = list(dict.fromkeys(names))
    placements = sorted({row["in_place"] for row in rows})
    prefix, peer = next((found for found in map(peer_of, rows) if found[0]), (None, None))
    with_limit = any(row.get("limit_us") for row in rows)
    kind = "busbw" if any(row["busbw_gbs"] for row in rows) else "algbw"  # one replica needs no bus
    heights = [3, 2, 2] if prefix else [3, 2]
    figure, panels = pyplot.subplots(len(heights), 1, sharex=True, figsize=(8.4, 1.35 * sum(heights) + 1.6), height_ratios=heights)
    for name, where in dict.fromkeys((name, row["in_place"]) for name, row in zip(names, rows)):
        curve = Curve([row for other, row in zip(names, rows) if other == name and row["in_place"] == where])
        hue = HUES[calls.index(name) % len(HUES)]
        draw_times(panels[0], curve, hue, line_of(where), prefix, with_limit)
        draw_rates(panels[1], curve, hue, line_of(where), prefix, kind)
        if prefix:
            panels[2].plot(curve.bytes, curve.column("ratio"), line_of(where), color=hue, marker="o")
    panels[0].set_yscale("log")
    panels[0].yaxis.set_major_formatter(ticker.FuncFormatter(time_text))
    panels[0].yaxis.set_minor_locator(ticker.NullLocator())
    panels[0].set_ylabel("time of a call")
    panels[1].set_ylabel({"busbw": "bus bandwidth, GB/s", "algbw": "bandwidth, GB/s"}[kind])
    panels[1].set_ylim(bottom=0)
    if prefix:
        ratio_axis(panels[2], peer)
    size_axis(panels[-1], {row["bytes"] for row in rows})
    panels[-1].set_xlabel("bytes")
    name = common if len(calls) == 1 else counted(len(calls), "call") + (f" of {common}" if common else "")
    above = perf_titles(figure, environment, rows, name)
    finish_layout(figure, above, legend_of(figure, calls, placements, peer, with_limit))
    return figure


def plot_list(environment, rows):
    figure, axes = pyplot.subplots(figsize=(8.4, 4.6))
    prefix, peer = peer_of(rows[0])
    names, common = names_of_calls(rows)
    labels = [row["mode"].replace("_", " ") + ("" if len(set(names)) == 1 else "\n" + name) for name, row in zip(names, rows)]
    # MPI has no call for several tensors, and is compared by the faster of its other modes
    labels = [f"{label}\n(MPI: {row['mpi_call'].split(', ')[-1].replace('_', ' ')})" if row["mode"] not in ("one_by_one", "buckets") and row.get("mpi_call")
              else label for label, row in zip(labels, rows)]
    sides = [("", "lockstep", HUES[0])] + ([(prefix, peer, lighter(HUES[0]))] if prefix else [])
    width = 0.8 / len(sides)
    for k, (start, name, colour) in enumerate(sides):
        shown = [(place, row) for place, row in enumerate(rows) if row.get(start + "time_us")]
        medians = [row[start + "time_us"] for _, row in shown]
        below = [median - row[start + "p10_us"] for median, (_, row) in zip(medians, shown)]
        above = [row[start + "p90_us"] - median for median, (_, row) in zip(medians, shown)]
        axes.bar([place + (k - (len(sides) - 1) / 2) * width for place, _ in shown], medians, width * 0.95, yerr=[below, above], label=name,
                 color=colour, error_kw={"elinewidth": 1, "ecolor": "0.4", "capsize": 3})
    axes.grid(axis="x", visible=False)
    axes.set_xticks(range(len(rows)), labels)
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(time_text))
    axes.set_ylabel("time of all tensors")
    handles, texts = axes.get_legend_handles_labels()
    figure.legend(handles, texts, loc="lower center", ncol=2, fontsize=9)
    name = os.path.basename(rows[0]["list"])
    above = perf_titles(figure, environment, rows, f"{common} of {name}, {counted(rows[0]['tensors'], 'tensor')}")
    finish_layout(figure, above, 1)
    return figure


def finish_layout(figure, titles_inches, legend_rows):
    """Room for the titles above, and for the legend below."""
    height = figure.get_figheight()
    figure.align_ylabels()
    figure.tight_layout(rect=(0, (0.05 + 0.2 * legend_rows) / height, 1, 1 - titles_inches / height))


def running_mean(values, width):
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    return [(sums[k + 1] - sums[max(0, k + 1 - width)]) / (k + 1 - max(0, k + 1 - width)) for k in range(len(values))]


def plot_training(result):
    losses, first = result["loss"], result["first_step"]
    if not losses:
        raise BadData("the run has no steps")
    accuracies = [(each["step"], each["test_accuracy"]) for each in result.get("epochs", [])]
    accuracies.append((first + len(losses), result["test_accuracy"]))
    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(8.4, 5.8), height_ratios=[3, 2])
    steps = range(first + 1, first + len(losses) + 1)
    above.plot(steps, losses, color=lighter(HUES[0]), linewidth=0.8, label="loss of a step")
    width = max(1, len(losses) // 50)
    if width == 1:
        above.lines[0].set(color=HUES[0], linewidth=STYLE["lines.linewidth"])
    else:
        above.plot(steps, running_mean(losses, width), color=HUES[0], label=f"mean of {width} steps")
    above.set_yscale("log")
    above.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    above.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    above.yaxis.set_minor_locator(ticker.NullLocator())
    above.set_ylabel("loss")
    above.legend(fontsize=9)
    below.plot(*zip(*accuracies), marker="o", color=HUES[1])
    for k, (step, accuracy) in enumerate(accuracies):
        if k in (0, len(accuracies) - 1):
            below.annotate(f"{accuracy:.4f}", (step, accuracy), textcoords="offset points", xytext=(-4, -13), ha="right", fontsize=9)
    below.margins(y=0.3)
    below.set_ylim(top=min(below.get_ylim()[1], 1.005))
    below.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, steps=(1, 2, 5, 10)))
    below.set_ylabel("test accuracy")
    below.set_xlabel("step")
    layout = f"{counted(result.get('ranks', len(result['layout'])), 'rank')}, {counted(result['replicas'], 'replica')}"
    details = [f"global batch {result['global_batch']}", f"{result['images_per_second']:,.0f} images/s",
               f"communication {100 * result['communication_share']:.1f} %", result["mpi"], f"lockstep {result['version']}"]
    finish_layout(figure, titles(figure, f"{result['model']} with {result['optimizer']}, {layout}",
                                 ["; ".join(details), f"parameters {result['parameters']}"]), 0)
    return figure


def figure_of(text):
    """Throws BadData."""
    try:
        result = json.loads(text)
        if "rows" in result:
            if not result["rows"]:
                raise BadData("the file has no rows")
            draw = plot_list if result["rows"][0]["list"] else plot_sweep
            return draw(result["environment"], result["rows"])
        if "loss" in result:
            return plot_training(result)
    except json.JSONDecodeError as error:
        raise BadData(f"invalid JSON at byte {error.pos}: {error.msg}") from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise BadData(f"not a result of lockstep-perf or lockstep-train of this version ({type(error).__name__}: {error})") from error
    raise BadData("not a result of lockstep-perf or lockstep-train: it has neither rows nor losses")


def fail(code, text):
    print(f"lockstep-plot: {text}", file=sys.stderr)
    sys.exit(code)


def read(name):
    if name == "-":
        return sys.stdin.read()
    try:
        with open(name, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        fail(BAD_DATA, f'"{name}": the file cannot be read: {getattr(error, "strerror", None) or "it is not a text"}')


def main():
    parser = argparse.ArgumentParser(prog="lockstep-plot", description=__doc__.split("\n\n", 1)[0], allow_abbrev=False,
                                     epilog=__doc__.split("\n\n", 2)[2], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", metavar="FILE", help="what --json wrote, or - for standard input")
    parser.add_argument("-o", "--output", metavar="PICTURE", help="name that ends in .png, .svg or .pdf (default: FILE.png)")
    parser.add_argument("--version", action="version",
                        version=f"lockstep-plot, {f'with matplotlib {matplotlib.__version__}' if matplotlib else 'without matplotlib'}")
    chosen = parser.parse_args()
    if chosen.file is None:
        fail(USAGE, "give the file that --json wrote; --help shows the options")
    if chosen.output is None and chosen.file == "-":
        fail(USAGE, "give -o PICTURE: standard input has no name")
    output = chosen.output or os.path.splitext(chosen.file)[0] + ".png"
    if not output.endswith(FORMATS):
        fail(USAGE, f'-o/--output "{output}": give a name that ends in .png, .svg or .pdf')
    if matplotlib is None:
        fail(FAILURE, "matplotlib cannot be imported; install it (Debian package python3-matplotlib)")
    text = read(chosen.file)
    pyplot.rcParams.update(STYLE)
    try:
        figure = figure_of(text)
    except BadData as error:
        fail(BAD_DATA, f'"{chosen.file}": {error}')
    try:
        figure.savefig(output, dpi=150)
    except OSError as error:
        fail(FAILURE, f'-o/--output "{output}": the file cannot be written: {error.strerror}')


if __name__ == "__main__":
    main()
