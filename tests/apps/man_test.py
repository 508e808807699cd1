#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The manual pages, which help2man makes from --help: they are complete, and groff has no warning.

man_test.py PAGE...
"""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from tap import Skip, expect, run_cases  # noqa: E402


def has_its_parts(page):
    def case():
        with open(page, encoding='utf-8') as file:
            text = file.read().replace('\\-', '-')
        name = os.path.basename(page)[:-len('.1')]
        expect(re.search(rf'^\.SH NAME\n{name} - \w+ \w+', text, re.MULTILINE), text)
        expect('--help' in text and '--version' in text, text)
        expect('kernels' not in text.split('.SH NAME')[0], text)  # the version only, not what --version says of this machine

    return case


def is_valid(page):
    def case():
        if shutil.which('groff') is None:
            raise Skip('groff is not installed')
        done = subprocess.run(['groff', '-man', '-Tutf8', '-ww', page], capture_output=True, text=True, timeout=100)
        expect(done.returncode == 0 and done.stderr == '', done.stderr)

    return case


sys.exit(run_cases([(f'{os.path.basename(page)} {what}', case(page)) for page in sys.argv[1:]
                    for what, case in (('has its parts', has_its_parts), ('is valid', is_valid))]))
