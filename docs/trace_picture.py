#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Draws a part of a trace by matplotlib, as Perfetto shows it: images/trace.svg in this folder.

  trace_picture.py TRACE.json BEGIN END PICTURE     BEGIN and END in milliseconds since the beginning of the trace

The picture there is of `LOCKSTEP_TRACE=trace mpirun -n 2 lockstep-train --data synthetic --steps 40`.
"""

import json
import sys

import matplotlib

matplotlib.use('Agg')
import matplotlib.pyplot as plt

COLOURS = {'step': '#b8c4d6', 'input': '#e0c9a6', 'wait': '#c0504d', 'reduce': '#4f81bd', 'move data': '#9bbb59'}
TEXTS = {'step': 'step of the program', 'input': 'next batch', 'wait': 'waiting for a rank', 'reduce': 'reducing', 'move data': 'moving data'}


def colour_of(event):
    name = event['name']
    if event.get('cat') == 'phase':
        return COLOURS['wait' if name.startswith('wait') else name]
    return COLOURS['input' if name == 'get_next' else 'step']


def main():
    path, begin, end, picture = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    with open(path, encoding='utf-8') as file:
        events = json.load(file)['traceEvents']
    names = {(event['pid'], event['tid']): event['args']['name'] for event in events if event['name'] == 'thread_name'}
    shown = [event for event in events if event['ph'] == 'X' and event['ts'] < end * 1e3 and event['ts'] + event['dur'] > begin * 1e3]
    shown = [event for event in shown if event.get('cat') != 'operation']  # which are drawn by their phases
    tracks = sorted({(event['pid'], event['tid']) for event in shown}, key=lambda track: (track[0], -track[1] if track[1] >= 100000 else track[1]))
    figure, axes = plt.subplots(figsize=(9, 0.45 * len(tracks) + 1.1), layout='constrained')
    for event in sorted(shown, key=lambda event: -event['dur']):  # ranges that others contain come first
        row = len(tracks) - 1 - tracks.index((event['pid'], event['tid']))
        axes.barh(row, event['dur'] / 1e3, left=event['ts'] / 1e3, height=0.7, color=colour_of(event), edgecolor='white', linewidth=0.4)
    axes.set_yticks(range(len(tracks)), [f'rank {rank}: {names[rank, thread]}' for rank, thread in reversed(tracks)], fontsize=8)
    axes.set_xlim(begin, end)
    axes.set_xlabel('time in ms', fontsize=8)
    axes.tick_params(axis='x', labelsize=8)
    for side in ('top', 'right', 'left'):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis='y', length=0)
    kinds = [kind for kind, colour in COLOURS.items() if colour in map(colour_of, shown)]
    axes.legend([plt.Rectangle((0, 0), 1, 1, color=COLOURS[kind]) for kind in kinds], [TEXTS[kind] for kind in kinds], ncols=5,
                fontsize=8, frameon=False, loc='lower center', bbox_to_anchor=(0.4, 1))
    figure.savefig(picture, metadata={'Title': 'A trace of lockstep-train on 2 ranks', 'Date': None})


main()
