#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus of the fuzz targets: valid files of every kind, and one file for each kind of error.

  make_corpus.py [FOLDER]     default: corpus beside this file; keeps files that fuzzing has added

Of files that lockstep writes, FOLDER has one that it has written; this script adds damaged ones.
"""

import gzip
import io
import os
import re
import struct
import sys
import zipfile
import zlib


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return struct.pack('<I', (((crc >> 15) | (crc << 17)) + 0xa282ead8) & 0xffffffff)


def tfrecord(data):
    length = struct.pack('<Q', len(data))
    return length + masked(length) + data + masked(data)


def npy(descr, shape, data, fortran=False, version=1):
    header = repr({'descr': descr, 'fortran_order': fortran, 'shape': shape}).encode()
    header += b' ' * (63 - (10 + len(header)) % 64) + b'\n'
    length = struct.pack('<H' if version == 1 else '<I', len(header))
    return b'\x93NUMPY' + bytes([version, 0]) + length + header + data


def npz(arrays, method):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, 'w', method) as archive:
        for name, data in arrays.items():
            info = zipfile.ZipInfo(name + '.npy', (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            with archive.open(info, 'w', force_zip64=True) as member:  # as NumPy does
                member.write(data)
    return buffer.getvalue()


def idx(code, extents, data):
    return bytes([0, 0, code, len(extents)]) + struct.pack(f'>{len(extents)}I', *extents) + data


def packed(data):
    return gzip.compress(data, mtime=0)


def header(epoch, sequence, data=b''):
    """An AgreementHeader of lib/collectives/engine/control_message.hpp, and data that travels with it."""
    return struct.pack('<IIQqQQ', 0, 0, epoch, sequence, 5, 0) + data


def control(kind, epoch, sequence, awaited=(), code=5, ends=0, text=b'', data=None):
    """A ControlMessage there, whose size depends on its kind (bytes_of), and the data behind an offer."""
    message = bytearray(1520)
    struct.pack_into('<IIQq', message, 0, kind, 0, epoch, sequence)
    struct.pack_into('<i8i', message, 28, -1, *(tuple(awaited) + (-1,) * 8)[:8])
    struct.pack_into('<qiiBB', message, 72, sequence, 1, -1, code, ends)
    message[72 + 82:72 + 82 + len(text)] = text
    message[25] = data is not None
    return bytes(message[:{2: 72, 8: 72, 1: 1520, 7: 1080}.get(kind, 640)]) + (data or b'')


def sent(*messages):
    """Each behind its sender and its size."""
    return b''.join(bytes([rank]) + struct.pack('<H', len(message)) + message for rank, message in messages)


def frame(kind, payload=b'', number=0, size=0, bytes=None):
    """A FrameHeader of transport/tcp/frame.hpp, and its payload."""
    return struct.pack('<IIQQQQ', kind, len(payload) if bytes is None else bytes, 7, 1, number, size) + payload


def greeting(to=0x0807060504030201, line=0):
    """A TcpGreeting of transport/tcp/handshake.hpp, and a proof that is wrong."""
    return struct.pack('<QQQQQQ', 0x31706574736b636c, 5, to, line, 1, 2) + b'p' * 16


def damaged(files):
    """Each file truncated, with an additional byte, and with a changed byte."""
    result = dict(files)
    for name, data in files.items():
        result[name + '-cut'] = data[:len(data) * 2 // 3]
        result[name + '-longer'] = data + b'!'
        at = len(data) // 2
        result[name + '-changed'] = data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1:] if data else b'?'
    return result


SIX = struct.pack('<6i', 1, 2, 3, 4, 5, 6)
ARRAYS = {'x': npy('<i4', (2, 3), SIX), 'y': npy('|u1', (2,), b'\1\2'), 'scale': npy('<f4', (), bytes(4))}
RECORDS = tfrecord(b'one') + tfrecord(b'') + tfrecord(b'x' * 100)
TEXT = b'one\n\ntwo\r\nlast'
TABLE = b'a,1\n"b,""c""\n",2\r\n,\n'

CORPUS = {
    'config': {
        'options': b'seed=3\n# text\nname = a b \n\nquiet=true\n', 'section': b'[part]\nseed=1\n', 'unknown': b'other=1\n', 'no-value': b'seed\n',
        'number': b'seed=99999999999999999999\n', 'twice': b'seed=1\nseed=2\n', 'escape': b'name\x1b[2J=1\n', 'config': b'config=/dev/null\n',
    },
    'frames': {
        'message': frame(1, b'hello'), 'empty': frame(1), 'eager': frame(2, b'x' * 300, 1, 300), 'request': frame(3, b'', 2, 1 << 20) + frame(4, b'', 2),
        'data': frame(5, b'y' * 200, 2) + frame(5, b'z' * 100, 2, 200), 'others': frame(6, b'', 3) + frame(7, b'', 0, 5000) + frame(8),
        'dropped': frame(2, b'x' * 100, 3, 100) + frame(1, b'next'), 'unknown': frame(9), 'no-kind': frame(0), 'large': frame(1, b'', bytes=(1 << 20) + 1),
        'payload-of-a-grant': frame(4, b'x', 1), 'greeting': greeting(), 'of-another': greeting(1), 'bulk': greeting(line=1), 'line': greeting(line=9),
    },
    'control': {
        'header': sent((0, header(0, 0)), (1, header(0, 0, b'data')), (2, header(1, 0))),
        'heartbeats': sent((0, control(2, 0, 1, (2, 3))), (1, control(2, 1, 0)), (2, control(3, 0, 0, (1,), text=b'operation #2'))),
        'aborts': sent((0, control(4, 0, 1, text=b'rank 1 failed')), (1, control(4, 0, 0, ends=3)), (2, control(4, 1, 0, ends=2))),
        'ends': sent((0, control(5, 0, 2, text=b'rank 1 has exited')), (0, control(6, 1, 0, ends=4))),
        'pairs': sent(*((0, control(kind, 0, 3)) for kind in range(7, 11))),
        'data': sent((0, control(7, 0, 0, data=b'abc')), (1, control(7, 0, 1, data=b'')), (2, control(8, 0, 0) + b'x'), (0, control(7, 0, 1) + b'x')),
        'long-text': sent((1, control(4, 0, 0, text=b'x' * 480))), 'short': sent((0, b'a'), (1, control(2, 0, 0)[:-1]), (2, header(0, 0)[:-1])),
        'no-values': sent((0, control(11, 0, 0)), (1, control(4, 0, 0, code=9)), (2, control(4, 0, 0, ends=5)), (0, control(2, 0, 0, (4,)))),
    },
    'csv': {
        'table': TABLE, 'packed': packed(TABLE), 'header': b'x;y\n1;2\n-0.5;1e3\n', 'typed': b'true,,1\n0,inf,-2\n',
        'mark': b'\xef\xbb\xbfa,1\n', 'open-quote': b'"a,1\nb,2\n', 'quote-inside': b'a"b,1\n', 'empty': b'',
    },
    'gradients': {'counts': b'3\n# text\n 4096 # text\r\n\n1099511627776\n', 'zero': b'0\n', 'words': b'4 5\n', 'binary': b'4\0\n', 'sizes': b'4K\n'},
    'host_file': {
        'hosts': b'a slots=2\nb-1.c_d:3 # text\n\na\n', 'zero': b'a slots=0\n', 'option': b'-a\n', 'other': b'a max_slots=4\n',
        'most': b'a:1000000\na:1000000\n', 'port': b'a:b:1\n', 'escape': b'a\x1b[2J\n', 'comment': b'# text',
    },
    'idx': {
        'images': idx(8, (2, 2, 1), b'abcd'), 'labels': idx(0x0b, (3,), b'\0\1\0\2\0\3'), 'scalar': idx(0x0e, (), bytes(8)),
        'packed': packed(idx(0x0d, (2,), bytes(8))), 'empty': idx(8, (0, 5), b''), 'huge': idx(8, (0xffffffff,) * 3, b'a'),
        'rows-of-nothing': idx(0x0c, (0xffffffff, 0), b''),
    },
    'npy': {
        'small': npy('<i4', (2, 3), SIX), 'big': npy('>i4', (2, 3), SIX), 'fortran': npy('<i2', (2, 3, 2), SIX, True),
        'bool': npy('|b1', (3,), b'\0\2\xff'), 'half': npy('<f2', (12,), SIX), 'scalar': npy('<f8', (), bytes(8)),
        'version-3': npy('<u4', (6,), SIX, version=3), 'packed': packed(npy('<i4', (2, 3), SIX)),
        'rows-of-nothing': npy('<f4', (1 << 62, 0), b''), 'huge': npy('<f4', (1 << 40, 1 << 20), b''),
        'complex': npy('<c8', (3,), SIX), 'negative': npy('<i4', (-6,), SIX), 'axes': npy('<i4', (1,) * 9, b'abcd'),
        'packed-fortran': packed(npy('<i2', (2, 3, 2), SIX, True)),
    },
    'npz': {
        'stored': npz(ARRAYS, zipfile.ZIP_STORED), 'deflated': npz(ARRAYS, zipfile.ZIP_DEFLATED),
        'none': npz({}, zipfile.ZIP_STORED), 'no-array': npz({'x': b'text', 'y': b''}, zipfile.ZIP_STORED),
        'comment': npz({}, zipfile.ZIP_STORED)[:-2] + b'\3\0abc',
    },
    'records': {
        'plain': b'\x22\x30' + b'hh' + b'abcdef' + b'fff', 'packed': b'\x22\x30' + packed(b'hhabcdeffff'), 'odd': b'\x03\x00abcde',
        'empty': b'\x00\x00',
    },
    'text': {'lines': TEXT, 'packed': packed(TEXT), 'long': b'x' * 5000, 'empty': b'', 'bomb': packed(bytes(1 << 21))},
    'tfrecord': {
        'records': RECORDS, 'packed': packed(RECORDS), 'text': TEXT * 3,
        'huge': (lambda head: head + masked(head))(struct.pack('<Q', 1 << 63)),
        'long': (lambda head: head + masked(head))(struct.pack('<Q', 1 << 19)), 'empty': b'',
    },
}


# written by lockstep: kind and name
SAMPLES = [('manifest', 'step'), ('flight_record', 'request'), ('flight_record', 'mismatch'), ('hash_log', 'rank'), ('metrics', 'rank'), ('results', 'job'), ('trace', 'rank')]


def deep(name, text):
    """A list in lists, in place of the first number; a number that no double has; escape sequences."""
    number = re.search(rb'(?<=[:\[ ])\d+', text)
    before, after = text[:number.start()], text[number.end():]
    return {f'{name}-deep': before + b'[' * 30000 + b']' * 30000 + after, f'{name}-infinite': before + b'1e999' + after,
            f'{name}-unicode': text.replace(b'"job', b'"\\u001b[2J\xff', 1)}


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), 'corpus')
    assert zlib.crc32(b'123456789') == 0xcbf43926 and crc32c(b'123456789') == 0xe3069283
    for kind, files in CORPUS.items():
        os.makedirs(os.path.join(folder, kind), exist_ok=True)
        for name, data in damaged(files).items():
            with open(os.path.join(folder, kind, name), 'wb') as file:
                file.write(data)
    for kind, name in SAMPLES:
        with open(os.path.join(folder, kind, name), 'rb') as file:
            sample = file.read()
        files = damaged({name: sample})
        if kind != 'trace':
            files.update(deep(name, sample))
        for variant, data in files.items():
            with open(os.path.join(folder, kind, variant), 'wb') as file:
                file.write(data)


if __name__ == '__main__':
    main()
