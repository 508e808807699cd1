#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""lockstep-doctor on simulated hosts with slow links: doctor_test.py MPIRUN DOCTOR. Prints TAP."""

import json
import re
import sys

import hosts
import tap

mpirun, doctor = sys.argv[1:]
hosts.enter_or_skip('lockstep-doctor on hosts')


def report_of(these, ranks, before=()):
    result = these.run(ranks, [*before, doctor, '--seconds', '2', '--json'])
    tap.expect(result.returncode == 0 and '{' in result.stdout, f'{result.returncode}\n{result.stdout}\n{result.stderr}')
    return json.JSONDecoder().raw_decode(result.stdout[result.stdout.index('{'):])[0]


def says_what_is_between_nodes():
    with hosts.Hosts(2, mpirun=mpirun) as these:
        for setting, expected in (('mpi', r'by mpi$'), ('tcp', r'by tcp$'), ('auto', r'by (mpi|tcp) \(64 B there and back .* us over TCP, .* by MPI; 256 KiB ')):
            report = report_of(these, [1, 1], ['env', f'LOCKSTEP_TRANSPORT={setting}'])
            found = [each['text'] for each in report['findings'] if each['text'].startswith('between hosts, data goes ')]
            tap.expect(len(found) == 1 and re.search(expected, found[0]), f'{setting}: {report["findings"]}')


def warnings_of(report):
    return [each for each in report['findings'] if each['severity'] == 'warning']


def names_a_slow_link():
    with hosts.Hosts(2, rate='20mbit', mpirun=mpirun) as these:
        report = report_of(these, [1, 1])
    found = [each['text'] for each in warnings_of(report) if 'less than 1 Gbit/s' in each['text']]
    tap.expect(len(found) == 1 and 'ranks 0 (h1) and 1 (h2)' in found[0], report['findings'])


def names_the_slow_host():
    with hosts.Hosts(5, mpirun=mpirun) as these:
        inside = ['nsenter', '--target', str(these.holders[2].pid), '--net']
        hosts.run(*inside, 'tc', 'qdisc', 'add', 'dev', 'eth0', 'root', 'tbf', 'rate', '20mbit', 'burst', '256kb', 'latency', '50ms')
        report = report_of(these, [1, 1, 1, 1, 1])
    found = [each for each in warnings_of(report) if 'measured links of h3' in each['text']]
    tap.expect(len(found) == 1 and found[0]['ranks'] == [2], json.dumps(report['findings'] + report['links'], indent=1))


sys.exit(tap.run_cases([('names a slow link', names_a_slow_link), ('names the host whose links are all slow', names_the_slow_host),
                        ('says what moves data between nodes', says_what_is_between_nodes)]))
