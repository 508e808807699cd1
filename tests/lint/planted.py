# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Small trees for the tests of the lints, which plant a violation in one that is otherwise clean."""

import contextlib
import os
import tempfile


@contextlib.contextmanager
def tree(files):
    """A temporary folder with these files, {path: text}."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, 'w', encoding='utf-8') as file:
                file.write(text)
        yield root
