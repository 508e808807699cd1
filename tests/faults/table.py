# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The events and moments of the fault matrix, and what is documented for each pair of them."""

import dataclasses
import re

EVENTS = {  # name: (kind, what happens to the culprit)
    'kill': ('dies', 'SIGKILL'),
    'term': ('dies', 'SIGTERM'),
    'abort': ('dies', 'abort()'),
    'segv': ('dies', 'segmentation fault'),
    'memory-group': ('dies', 'more memory than its control group may have: SIGKILL by the kernel'),
    'exit3': ('dies', 'exit(3)'),
    'exit0': ('exits', 'exit(0)'),
    '_exit0': ('exits', '_exit(0)'),
    'scope': ('exits', 'leaves its scope: destroys communicator and Environment, and returns from main'),
    'throw': ('throws', 'exception that nothing catches'),
    'caught': ('throws', 'exception that main catches outside of the Environment'),
    'stop': ('stops', 'SIGSTOP'),
    'stop-cont': ('pauses', 'SIGSTOP, SIGCONT 15 s later'),
    'late': ('pauses', 'sleeps for longer than the deadline, until the others have failed'),
    'skip': ('differs', 'a call is skipped'),
    'extra': ('differs', 'one call more'),
    'swap': ('differs', 'two calls swapped'),
    'count': ('differs', 'wrong count'),
    'dtype': ('differs', 'wrong dtype'),
    'op': ('differs', 'wrong op'),
    'root': ('differs', 'wrong root'),
    'kind': ('differs', 'wrong kind of call'),
    'list': ('differs', 'wrong number of tensors'),
    'name': ('differs', 'wrong name'),
    'replicas': ('invalid', 'wrong number of replicas'),
    'options': ('differs', 'wrong options'),
    'environment-timeout': ('environment', 'LOCKSTEP_TIMEOUT=soon'),
    'environment-order': ('environment', 'LOCKSTEP_ORDER=canonical on one rank'),
    'environment-radices': ('environment', 'LOCKSTEP_RADICES=f2 on one rank'),
    'environment-memory': ('environment', 'LOCKSTEP_SHARED_MEMORY=0 on one rank'),
    'shm-full': ('lacks', '/dev/shm full'),
    'shm-absent': ('lacks', 'no /dev/shm'),
    'staging': ('lacks', 'no memory for staging'),
    'address-space': ('lacks', 'address space limited'),
    'descriptors': ('lacks', 'no file descriptor left'),
    'threads': ('lacks', 'no further thread (RLIMIT_NPROC, as another user than root)'),
    'disk-full': ('lacks', 'no space for checkpoints'),
    'cut': ('cut', 'link cut'),
    'heal': ('link', 'link cut, healed 1 s later'),
    'slow': ('link', '1 Mbit/s'),
}
MOMENTS = {
    'creation': 'creation',
    'first': 'first call',
    'steady': 'steady',
    'async': 'asynchronous in flight',
    'large': 'in the middle of a large transfer',
    'merge': 'inside merge_call',
    'dataset': 'in a dataset',
    'checkpoint': 'in a checkpoint',
    'shutdown': 'shutdown',
}
INTERFACES = ('communicator', 'strategy')

SHORT_S = 5  # deadline of a job in which only a deadline ends a wait
QUICK_S = 1  # the bound within which an end is noticed on a node, and a mismatch everywhere
LOST = '69'  # exit code of a job that lockstep aborts because a rank is lost
# Exit code of the culprit's own process, where a shell sees it.
CODES = {'kill': 137, 'memory-group': 137, 'term': 143, 'abort': 134, 'segv': 139, 'exit3': 3, 'exit0': 0, '_exit0': 0, 'scope': 0}
RIGHT = frozenset({None})  # no error
CREATED = ('creation',)


@dataclasses.dataclass
class Expected:
    """What is documented for a cell."""
    others: frozenset  # codes of the first error; None stands for no error
    culprit: frozenset  # the same for the culprit; 'gone' if it ends at the event
    names: str = ''  # the rank that the others' error names: 'culprit', 'behind' the link, or '' if none
    text: str = ''  # a pattern in the others' texts
    within: float = 0  # seconds from the event to the others' errors, without the slack
    after: str = 'any'  # the next operations: right, refused, any
    exit: str = 'any'  # exit code of the launcher: zero, other, any, or a number
    fail: float = 30  # deadline of the job; long where the ranks notice the event without it
    recover: float = 0  # how long ranks try again
    hidden: bool = False  # whether the launcher may end ranks before they have reported


def codes(words):
    return frozenset(None if word == 'right' else word for word in words.split())


def reason_against(event, moment, interface, hosts):
    """Why there is no such cell, or an empty text."""
    kind = EVENTS[event][0]
    if interface == 'communicator' and moment in ('merge', 'dataset', 'checkpoint'):
        return 'a communicator has no merge_call, datasets and checkpoints'
    if kind in ('cut', 'link') and not hosts:
        return 'ranks of one node do not use a link'
    if kind == 'environment' and moment != 'creation':
        return 'variables are read once, when the Environment is created'
    if event == 'shm-absent' and moment != 'creation':
        return 'a mounted file system does not vanish under a job'
    if event == 'threads' and moment not in ('async', 'checkpoint'):
        return 'its calls start no thread'
    if event == 'disk-full' and moment != 'checkpoint':
        return 'only a checkpoint writes files'
    if event == 'disk-full' and hosts:
        return 'simulated hosts have the disk of the machine'
    if event == 'scope' and moment in ('merge', 'dataset'):
        return 'a function inside a call cannot leave the scope of its caller except by an exception'
    if kind in ('differs', 'invalid'):
        return reason_against_difference(event, moment, interface)
    return ''


def reason_against_difference(event, moment, interface):
    arguments = {'count', 'dtype', 'op', 'root', 'kind', 'list', 'name'}
    if moment == 'creation' and event in arguments:
        return 'creation has no such argument'
    if moment == 'creation' and event == 'swap':
        return 'communicators that are created alike cannot be told apart'
    if event == 'replicas' and moment != 'creation' and interface == 'strategy':
        return 'a strategy passes the values of the replicas that it has'
    if interface == 'strategy' and event == 'name':
        return 'calls of a strategy have no names'
    reasons = {
        ('async', 'strategy'): ({'kind', 'root'}, 'gradient buckets only reduce'),
        ('merge', 'strategy'): ({'root', 'options'}, 'calls in a merge_call have no root and no options'),
        ('dataset', 'strategy'): ({'op', 'root', 'kind', 'list', 'options', 'swap'}, 'elements of a dataset have none, and have their own order'),
        ('checkpoint', 'strategy'): (arguments, 'a save has a folder and a number, no tensors'),
        ('shutdown', interface): ({'swap'}, 'there is one last call'),
    }
    events, reason = reasons.get((moment, interface), (set(), ''))
    return reason if event in events else ''


def expected(cell):
    """What is documented for the cell."""
    event, moment = cell['event'], cell['moment']
    makers = {'dies': of_an_end, 'exits': of_an_end, 'throws': of_an_exception, 'stops': of_a_stop, 'pauses': of_a_pause,
              'differs': of_a_difference, 'invalid': of_an_invalid_argument, 'environment': of_an_environment,
              'lacks': of_a_shortage, 'cut': of_a_cut, 'link': of_a_link}
    return makers[EVENTS[event][0]](cell, event, moment)


def is_remote(cell):
    return len(cell['ranks']) > 1


def of_an_end(cell, event, moment):
    """README: `unavailable`, which names the rank, within a second on a node; between nodes at the latest by the deadline."""
    if moment == 'shutdown':
        return Expected(RIGHT, codes('gone'), exit='any' if event in ('scope', 'exit0', '_exit0') else 'other', fail=SHORT_S, hidden=True)
    orderly = EVENTS[event][0] == 'exits'
    wanted = Expected(codes('unavailable'), codes('gone'), 'culprit', 'has exited|has destroyed its' if orderly else '', QUICK_S, 'refused', 'other', hidden=event != 'scope')
    if event == 'scope' and moment == 'creation':
        wanted.fail = SHORT_S  # the Environment of the culprit tells the others
    elif is_remote(cell):
        wanted.others, wanted.text, wanted.within, wanted.fail = codes('unavailable deadline_exceeded'), '', 2 * SHORT_S, SHORT_S
    elif moment == 'creation':
        wanted.others, wanted.text, wanted.within, wanted.fail = codes('unavailable deadline_exceeded'), '', SHORT_S, SHORT_S
    return wanted


def of_an_exception(cell, event, moment):
    """README: the exception reaches the other ranks as `unavailable` with its text; the job ends 2 s later."""
    if moment == 'shutdown':
        return Expected(RIGHT, codes('gone'), exit='other', fail=SHORT_S, hidden=True)
    if moment == 'creation':
        return Expected(codes('unavailable deadline_exceeded'), codes('gone'), 'culprit', '', SHORT_S, 'refused', 'other', fail=SHORT_S, hidden=True)
    # an exception that main catches destroys the communicator; no destructor can see its text
    text = 'boom' if event == 'throw' else 'boom|exception'
    return Expected(codes('unavailable'), codes('gone'), 'culprit', text, QUICK_S, 'any', 'other', hidden=is_remote(cell) or cell['launch'] == 'plain')


def of_a_stop(cell, _event, moment):
    """README: `deadline_exceeded`, which names the rank; later operations end by the deadline, and so does the job."""
    within = 2 * SHORT_S if is_remote(cell) else SHORT_S
    if moment == 'shutdown':
        return Expected(RIGHT, codes('gone'), exit=LOST, fail=SHORT_S, hidden=True)
    return Expected(codes('deadline_exceeded'), codes('gone'), 'culprit', '', within, 'refused', LOST, fail=SHORT_S)


def of_a_pause(cell, event, moment):
    """As a stop, but every operation that all ranks make after it is right again."""
    within = 2 * SHORT_S if is_remote(cell) else SHORT_S
    long = 'deadline_exceeded unavailable'
    if moment == 'shutdown':
        return Expected(RIGHT, codes('right gone'), exit='any', fail=SHORT_S, hidden=True)
    if moment == 'creation':
        return Expected(codes('deadline_exceeded'), codes(long), 'culprit', '', within, 'any', 'other', fail=SHORT_S, hidden=True)
    recover = (cell['stop'] if event == 'stop-cont' else 2 * SHORT_S) + 10
    return Expected(codes('deadline_exceeded'), codes(long + ' right'), 'culprit', '', within, 'right', 'zero', fail=SHORT_S, recover=recover)


def of_a_difference(cell, event, moment):
    """README: `mismatch` on every rank, with one text, before data moves; the next operation works."""
    every = Expected(codes('mismatch'), codes('mismatch'), '', '', QUICK_S, 'right', 'zero')
    buckets = cell['interface'] == 'strategy' and (moment == 'async' or (moment == 'large' and event not in ('skip', 'extra', 'swap', 'list')))
    if moment == 'creation':
        return Expected(codes('mismatch deadline_exceeded unavailable'), codes('mismatch deadline_exceeded unavailable'), '', '', 2 * SHORT_S, 'any', 'any', fail=SHORT_S)
    if moment == 'shutdown' and event == 'extra':
        return Expected(RIGHT, codes('unavailable'), exit='zero')
    if moment == 'shutdown' and event == 'skip':
        return Expected(codes('unavailable'), RIGHT, 'culprit', 'has exited|has destroyed its', QUICK_S, 'any', 'any')
    if moment == 'dataset' and event in ('skip', 'extra'):
        return Expected(RIGHT, RIGHT, after='right', exit='zero')  # all ranks make the steps of the longest
    if buckets and moment == 'async' and event == 'swap':
        return Expected(RIGHT, RIGHT, after='right', exit='zero')  # tensors are ready in any order
    if buckets and moment == 'async' and event in ('skip', 'extra', 'list'):
        # two communicators: the culprit waits in one, the others in the other
        long = codes('mismatch deadline_exceeded unavailable')
        return Expected(long, long, '', '', SHORT_S, 'right', 'zero', fail=SHORT_S, recover=3 * SHORT_S)
    return every


def of_an_invalid_argument(cell, _event, moment):
    """README: `invalid_argument` on the rank that can see it, `unavailable` with the text on the others."""
    if moment == 'creation':
        return Expected(codes('invalid_argument unavailable deadline_exceeded'), codes('invalid_argument'), 'culprit', '', SHORT_S, 'any', 'other', fail=SHORT_S, hidden=True)
    return Expected(codes('unavailable'), codes('invalid_argument'), 'culprit', '', QUICK_S, 'right', 'zero')


def of_an_environment(cell, event, _moment):
    if event == 'environment-timeout':  # the culprit ends the job
        return Expected(codes('unavailable deadline_exceeded right'), codes('gone'), '', '', 2 * SHORT_S, 'any', 'other', fail=SHORT_S, hidden=True)
    if event == 'environment-order':  # the order of host memory is canonical anyway
        return Expected(RIGHT, RIGHT, after='right', exit='zero')
    if event == 'environment-radices':
        some = codes('mismatch' if is_remote(cell) else 'mismatch right')
        return Expected(some, some, '', '', SHORT_S, 'any', 'any', fail=SHORT_S)
    some = codes('right mismatch invalid_argument failed_precondition unavailable')
    return Expected(some, some, '', '', SHORT_S, 'any', 'any', fail=SHORT_S)


def of_a_shortage(_cell, event, moment):
    """Lockstep does without, or every rank gets a typed error and the next operation works."""
    if event == 'threads':
        return Expected(codes('unavailable'), codes('unavailable'), 'culprit', 'cannot be started', QUICK_S, 'right', 'zero')
    if event == 'disk-full':
        return Expected(codes('unavailable'), codes('unavailable'), '', 'No space left on device', QUICK_S, 'right', 'zero')
    if moment in ('creation', 'shutdown'):
        return Expected(codes('right unavailable'), codes('right unavailable bad_alloc'), '', '', 8, 'any', 'any')
    # a shortage of the program's own memory makes its rank leave out a call
    return Expected(codes('right unavailable mismatch'), codes('right unavailable bad_alloc'), '', '', QUICK_S, 'right', 'zero')


def of_a_cut(_cell, _event, moment):
    """README: every rank gets an error that names a rank behind the link; only the launcher waits for the lost host."""
    if moment == 'shutdown':
        return Expected(RIGHT, codes('right gone'), exit='any', fail=SHORT_S, hidden=True)
    some = codes('deadline_exceeded unavailable')
    return Expected(some, some, 'behind', '', 2 * SHORT_S, 'refused', 'any', fail=SHORT_S, hidden=moment == 'creation')


def of_a_link(_cell, event, _moment):
    """A link that is slow, or away for less than the deadline, is not an error."""
    return Expected(RIGHT, RIGHT, after='right', exit='zero', fail=10 if event == 'heal' else 4)


def has_launcher_crashed(result):
    """Whether mpirun itself has crashed before any rank started: that of Open MPI 4.1 does so now and then while it shows a help text of
    its ranks. Its own library is in the stack, and that of MPI, which only ranks load, is not."""
    log = result['log']
    return not result['ranks'] and 'Process received signal' in log and 'libopen-rte.so' in log and 'libmpi.so' not in log


class Verdict:
    """Compares what the ranks of a cell have reported with what is documented; `failures` has one text for each difference."""

    def __init__(self, cell, wanted, result, slack):
        self.cell, self.wanted, self.result, self.slack = cell, wanted, result, slack
        self.failures = []
        self.check()

    def fail(self, text):
        self.failures.append(text)

    def check(self):
        result = self.result
        if result['hang']:
            self.fail(f'ranks have not ended {result.get("after_event") or result["seconds"]:.0f} s after the event')
        if result['launcher_stays'] and self.cell['event'] != 'cut':
            self.fail('the launcher has not ended after all ranks')
        for what in result['left']:
            self.fail(f'left behind: {what}')
        self.check_exit()
        self.check_start()
        ranks = range(sum(self.cell['ranks']))
        for rank in ranks:
            self.check_rank(rank, result['ranks'].get(str(rank), result['ranks'].get(rank, [])))
        self.check_one_text()

    def check_start(self):
        """A job that does not reach its event proves nothing."""
        begun = {int(rank) for rank, lines in self.result['ranks'].items() if any(line['at'] == 'started' for line in lines)}
        if self.cell['event'] == 'environment-timeout':
            return  # no rank needs to start
        if missing := set(range(sum(self.cell['ranks']))) - begun:
            self.fail(f'ranks {sorted(missing)} have not started')
        if EVENTS[self.cell['event']][0] not in ('differs', 'invalid', 'environment') and not self.result['event']:
            self.fail('the event has not happened')

    def check_exit(self):
        code = self.result['exit']
        # hidden from the launcher: the codes of the ranks count, which their shells have written
        if self.cell['launch'] == 'wrap':
            own = self.result['codes'].get(self.cell['culprit'], self.result['codes'].get(str(self.cell['culprit'])))
            if own not in (None, CODES.get(self.cell['event'], own)):
                self.fail(f'exit code of rank {self.cell["culprit"]} is {own}, not {CODES[self.cell["event"]]}')
            code = max(self.result['codes'].values(), default=None) if len(self.result['codes']) == sum(self.cell['ranks']) else 1
        if self.result['hang'] or (self.result['launcher_stays'] and self.cell['event'] == 'cut'):
            return
        wanted = self.wanted.exit
        if wanted.isdigit() and self.cell['launch'] == 'wrap':
            wanted = 'other'  # the launcher's own code, which it has from MPI_Abort, is that of the shells
        if wanted == 'zero' and code != 0 or wanted == 'other' and code == 0 or wanted.isdigit() and code != int(wanted):
            self.fail(f'exit code {code}, not {self.wanted.exit}')

    def check_rank(self, rank, lines):
        for line in lines:
            if line['at'] == 'wrong':
                self.fail(f'rank {rank}: wrong result: {line.get("text")}')
        is_culprit = rank == self.cell['culprit']
        allowed = self.wanted.culprit if is_culprit else self.wanted.others
        errors = [line for line in lines if line['at'] == 'error']
        code = errors[0]['code'] if errors else None
        left = any(line['at'] == 'left' for line in lines)
        if is_culprit and 'gone' in allowed:
            return  # it ends at the event
        if code is None and not left and self.wanted.hidden:
            return  # the launcher has ended it
        if self.result['hang'] and code is None:
            return self.fail(f'rank {rank}: neither an error nor an end')
        if code not in allowed:
            text = errors[0]['text'] if errors else 'no error'
            return self.fail(f'rank {rank}: {text}; documented is {" or ".join(sorted(str(c) for c in allowed))}')
        if code is not None and not is_culprit:
            self.check_error(rank, errors[0])
        self.check_after(rank, lines, left)

    def check_error(self, rank, error):
        event = self.result['event'] or error['begin']
        waited = error['t'] - max(event, error['begin'])
        if self.wanted.within and waited > self.wanted.within + self.slack:
            self.fail(f'rank {rank}: error {waited:.1f} s after the event, bound {self.wanted.within} s and {self.slack} s: {error["text"]}')
        if not names_as_documented(self.cell, self.wanted.names, rank, error):
            self.fail(f'rank {rank}: names rank {error["rank"]}, not {self.wanted.names}: {error["text"]}')
        if self.wanted.text and not re.search(self.wanted.text, error['text']):
            self.fail(f'rank {rank}: no "{self.wanted.text}" in: {error["text"]}')

    def check_after(self, rank, lines, left):
        right = any(line['at'] == 'right' for line in lines)
        attempts = [line for line in lines if line['at'] == 'attempt']
        if self.wanted.after == 'right' and not right:
            self.fail(f'rank {rank}: the next operations fail: {attempts[-1]["text"] if attempts else "none was made"}')
        if self.wanted.after == 'refused':
            if right:
                self.fail(f'rank {rank}: an operation without rank {self.cell["culprit"]} has succeeded')
            for line in attempts:
                if line['code'] not in ('unavailable', 'deadline_exceeded'):
                    self.fail(f'rank {rank}: next operation: {line["text"]}')
                if line['t'] - line['begin'] > 2 * self.wanted.fail + self.slack:
                    self.fail(f'rank {rank}: the next operation took {line["t"] - line["begin"]:.1f} s: {line["text"]}')

    def check_one_text(self):
        """A mismatch has one text on all ranks, to which each may add where it was itself."""
        texts = {}
        for line in (line for lines in self.result['ranks'].values() for line in lines if line['at'] == 'error' and line['code'] == 'mismatch'):
            operation = re.search(r'operation #\d+|$', line['text']).group()
            texts.setdefault(operation, set()).add(line['text'].split('; this rank ')[0])
        for operation, some in texts.items():
            if len(some) > 1:
                self.fail(f'{len(some)} texts of one mismatch in {operation}: {sorted(some)}')


def names_as_documented(cell, names, rank, error):
    if names == 'culprit':
        return error['rank'] == cell['culprit'] or mentions(error['text'], cell['culprit'])
    if names == 'behind':
        behind = range(sum(cell['ranks'][:-1]), sum(cell['ranks']))
        return error['rank'] >= 0 and (error['rank'] in behind) != (rank in behind)
    return True


def mentions(text, rank):
    """Whether a text names the rank, alone or in a list."""
    found = re.findall(r'ranks? ([\d, ]+(?:and \d+)?)', text)
    return any(str(rank) in re.findall(r'\d+', numbers) for numbers in found)
