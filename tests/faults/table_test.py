#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The fault matrix finds what differs from its table, and has no empty cell without a reason. Prints TAP."""

import copy
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [FOLDER, os.path.join(FOLDER, os.pardir)]
from matrix import LAYOUTS, all_cells, completed, name_of  # noqa: E402
from table import EVENTS, MOMENTS, Verdict, expected, has_launcher_crashed  # noqa: E402
from tap import expect, run_cases  # noqa: E402


class Options:
    seed, program, mpiexec, sandbox, groups = 1, 'program', ['mpiexec'], [], None


KILL = completed({'event': 'kill', 'moment': 'steady', 'layout': '3', 'launch': 'wrap', 'interface': 'communicator'}, Options)[0]
KILL['culprit'] = 1


def survivor(**changes):
    error = {'at': 'error', 't': 100.5, 'begin': 100, 'code': 'unavailable', 'rank': 1, 'text': 'unavailable: rank 1 has died', **changes}
    return [{'at': 'started', 't': 99}, error, {**error, 'at': 'attempt', 'begin': 100.6, 't': 100.7}, {'at': 'left', 't': 101}]


def green():
    return {'hang': False, 'launcher_stays': False, 'left': [], 'exit': 0, 'codes': {0: 3, 1: 137, 2: 3}, 'event': 100, 'after_event': 2, 'seconds': 3,
            'ranks': {'0': survivor(), '1': [{'at': 'started', 't': 99}, {'at': 'event', 't': 100}], '2': survivor()}}


def failures(change):
    result = copy.deepcopy(green())
    change(result)
    return Verdict(KILL, expected(KILL), result, 5).failures


def finds(text, change):
    def case():
        found = failures(change)
        expect(len(found) >= 1 and any(text in failure for failure in found), f'{found} has no {text!r}')

    return case


def accepts_what_is_documented():
    expect(failures(lambda result: None) == [], failures(lambda result: None))


def of_rank_2(**changes):
    return lambda result: result['ranks'].update({'2': survivor(**changes)})


def tells_a_launcher_that_crashes():
    crash = {'ranks': {}, 'log': '*** Process received signal ***\n[ 3] libopen-rte.so.40(pmix_server_log_fn+0x317)'}
    expect(has_launcher_crashed(crash), 'not found')
    expect(not has_launcher_crashed({**crash, 'ranks': {'0': []}}), 'although a rank has started')
    expect(not has_launcher_crashed({**crash, 'log': crash['log'] + '\n[ 9] libmpi.so.40(MPI_Init+0x5)'}), 'although it is a rank that crashed')


def every_pair_has_cells_or_a_reason():
    cells, reasons = all_cells(list(LAYOUTS))
    pairs = {(cell['event'], cell['moment']) for cell in cells} | set(reasons)
    expect(pairs == {(event, moment) for event in EVENTS for moment in MOMENTS}, 'a pair has neither')
    expect(len({name_of(cell) for cell in cells}) == len(cells) >= 2000, f'{len(cells)} cells')
    for cell in cells:
        completed(cell, Options)  # the table knows it


sys.exit(run_cases([
    ('a cell as documented is green', accepts_what_is_documented),
    ('a rank that hangs', finds('have not ended', lambda result: result.update(hang=True))),
    ('a launcher that stays', finds('launcher', lambda result: result.update(launcher_stays=True))),
    ('a process that stays', finds('left behind', lambda result: result['left'].append('process x'))),
    ('exit code 0', finds('exit code', lambda result: result.update(codes={0: 0, 1: 0, 2: 0}))),
    ('a rank that has not started', finds('have not started', lambda result: result['ranks'].pop('2'))),
    ('an event that has not happened', finds('has not happened', lambda result: result.update(event=None))),
    ('another code', finds('documented is', of_rank_2(code='deadline_exceeded'))),
    ('no error', finds('documented is', lambda result: result['ranks'].update({'2': [{'at': 'started', 't': 9}, {'at': 'left', 't': 9}]}))),
    ('an error that names no rank', finds('names rank', of_rank_2(rank=-1, text='unavailable: something'))),
    ('an error that names another rank', finds('names rank', of_rank_2(rank=0, text='unavailable: rank 0 has died'))),
    ('an error that comes late', finds('bound', of_rank_2(t=110))),
    ('an operation without the rank that succeeds', finds('has succeeded', lambda result: result['ranks']['2'].append({'at': 'right', 't': 101}))),
    ('a wrong result', finds('wrong result', lambda result: result['ranks']['2'].append({'at': 'wrong', 't': 101, 'text': 'x'}))),
    ('a launcher that crashes', tells_a_launcher_that_crashes),
    ('an empty cell without a reason', every_pair_has_cells_or_a_reason),
]))
