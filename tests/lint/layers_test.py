#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Plants one violation after the other in a small tree that is otherwise clean: layers.py must find each. Prints TAP."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from layers import Lint  # noqa: E402
from planted import tree  # noqa: E402
from tap import Checks  # noqa: E402

HEAD = '// SPDX-FileCopyrightText: The lockstep authors\n// SPDX-License-Identifier: Apache-2.0\n'
HASH_HEAD = HEAD.replace('//', '#')

CLEAN = {
    'meson.build': HASH_HEAD + "project('x')\n",
    'include/lockstep/lockstep.hpp': HEAD + '#pragma once\n#include <lockstep/core/a.hpp>\n',
    'include/lockstep/base/a.hpp': HEAD + '#pragma once\n#include <vector>\n',
    'include/lockstep/core/a.hpp': HEAD + '#pragma once\n#include <lockstep/base/a.hpp>\nLOCKSTEP_API int f();\n',
    'include/lockstep/values/a.hpp': HEAD + '#pragma once\n',
    'include/lockstep/strategy/a.hpp': HEAD + '#pragma once\n#include <lockstep/core/a.hpp>\n',
    'include/lockstep/interop/mpi.hpp': HEAD + '#pragma once\n#include <mpi.h>\n#include <lockstep/core/a.hpp>\n',
    'lib/base/a.hpp': HEAD + '#pragma once\n',
    'lib/core/a.cpp': HEAD + '#include <lockstep/core/a.hpp>\n#include "base/a.hpp"\n#include <fmt/format.h>\n',
    'lib/schedule/a.hpp': HEAD + '#pragma once\n#include <cstdint>\n',
    'lib/bindings/mpi/a.cpp': HEAD + '#include <mpi.h>\n#include "base/a.hpp"\n',
    'lib/transport/mpi/a.cpp': HEAD + '#include "transport/a.hpp"\n#include <unistd.h>\n',
    'lib/transport/a.hpp': HEAD + '#pragma once\n',
    'lib/device/cuda/a.cu': HEAD + '#include "device/cuda/a.cuh"\n#include <cuda_runtime.h>\n',
    'lib/device/cuda/a.cuh': HEAD + '#pragma once\n',
    'lib/bindings/cuda/probe.cu': HEAD + '#include <span>\n',
    'lib/collectives/mpi.cpp': HEAD + '#include <lockstep/interop/mpi.hpp>\n#include "transport/a.hpp"\n',
    'lib/collectives/a.hpp': HEAD + '#pragma once\n',
    'lib/collectives/nccl/a.hpp': HEAD + '#pragma once\n',
    'lib/collectives/gpu/a.hpp': HEAD + '#pragma once\n#include "collectives/nccl/a.hpp"\n',
    'apps/hello/hello.cu': HEAD + '#include <lockstep/lockstep.hpp>\n',
    'apps/hello/hello.cpp': HEAD + '#include "base/printable.hpp"\n#include <lockstep/lockstep.hpp>\n#include <cstdio>\n',
    'lib/base/printable.hpp': HEAD + '#pragma once\n',
    'tests/unit/a_test.cpp': HEAD + '#include "schedule/a.hpp"\n#include <gtest/gtest.h>\n#include <mpi.h>\n',
    'tests/a.sh': '#!/bin/sh\n' + HASH_HEAD,
}

# description, the file, its planted content, a part of the message
PLANTED = [
    ('core includes a header of strategy', 'lib/core/a.cpp', HEAD + '#include <lockstep/strategy/a.hpp>\n', 'only lower layers'),
    ('a private header of a higher layer', 'lib/base/a.cpp', HEAD + '#include "transport/a.hpp"\n', 'only lower layers'),
    ('a module of the same layer', 'lib/core/b.cpp', HEAD + '#include "schedule/a.hpp"\n', 'the same layer'),
    ('a public header includes a higher one', 'include/lockstep/values/b.hpp',
     HEAD + '#pragma once\n#include <lockstep/strategy/a.hpp>\n', 'only lower layers'),
    ('a space between # and include', 'lib/core/b.cpp', HEAD + '#  include "transport/a.hpp"\n', 'only lower layers'),
    ('the umbrella inside the library', 'lib/strategy/a.cpp', HEAD + '#include <lockstep/lockstep.hpp>\n', 'for users'),
    ('a module without a layer', 'lib/mystery/a.cpp', HEAD + '#include "base/a.hpp"\n', 'not in the table'),
    ('mpi.h in a transport', 'lib/transport/mpi/b.cpp', HEAD + '#include <mpi.h>\n', 'lib/bindings/mpi/'),
    ('mpi.h in a public header', 'include/lockstep/core/b.hpp', HEAD + '#pragma once\n#include <mpi.h>\n', 'lib/bindings/mpi/'),
    ('interop brings mpi.h into a lower layer', 'lib/transport/mpi/b.cpp',
     HEAD + '#include <lockstep/interop/mpi.hpp>\n', 'only lower layers'),
    ('fmt in a public header', 'include/lockstep/core/b.hpp', HEAD + '#pragma once\n#include <fmt/format.h>\n', 'only in lib/'),
    ('zlib outside input', 'lib/core/b.cpp', HEAD + '#include <zlib.h>\n', 'lib/input/'),
    ('nccl.h in a device', 'lib/device/cuda/b.cpp', HEAD + '#include <nccl.h>\n', 'lib/bindings/nccl/'),
    ('a kind of operation outside of the table', 'lib/collectives/gpu/b.cpp', HEAD + 'bool f(OperationKind kind) { return kind == OperationKind::gather; }\n',
     'a column to the traits'),
    ('a room includes a higher one', 'lib/collectives/engine/b.cpp', HEAD + '#include "collectives/gpu/a.hpp"\n', 'only lower layers'),
    ('a room includes its sibling', 'lib/collectives/host/b.cpp', HEAD + '#include "collectives/nccl/a.hpp"\n', 'the same layer'),
    ('a room includes the root of its module', 'lib/collectives/gpu/b.cpp', HEAD + '#include "collectives/a.hpp"\n', 'only lower layers'),
    ('a room without a layer', 'lib/collectives/cellar/b.cpp', HEAD + '#include "base/a.hpp"\n', 'not in the table'),
    ('a CUDA header in a collective', 'lib/collectives/b.cpp', HEAD + '#include <cuda_runtime_api.h>\n', 'lib/bindings/cuda/'),
    ('a CUDA source in a collective', 'lib/collectives/b.cu', HEAD + '#include <cstdint>\n', 'are allowed only in lib/device/cuda/'),
    ('a CUDA header in a public folder', 'include/lockstep/device/b.cuh', HEAD + '#pragma once\n', 'are allowed only in'),
    ('a CUDA source beside the probe', 'lib/bindings/cuda/b.cu', HEAD + '#include <cstdint>\n', 'are allowed only in'),
    ('a CUDA source in the tests', 'tests/gpu/b.cu', HEAD + '#include <cstdint>\n', 'are allowed only in'),
    ('hwloc outside cluster', 'lib/device/host/b.cpp', HEAD + '#include <hwloc.h>\n', 'lib/cluster/'),
    ('Boost in the library', 'lib/base/b.cpp', HEAD + '#include <boost/program_options.hpp>\n', 'only in apps/'),
    ('Eigen in the library', 'lib/training/b.cpp', HEAD + '#include <Eigen/Core>\n', 'eigen.hpp'),
    ('gtest outside the tests', 'apps/hello/b.cpp', HEAD + '#include <gtest/gtest.h>\n', 'only in testing/, tests/'),
    ('a system header in a public one', 'include/lockstep/base/b.hpp', HEAD + '#pragma once\n#include <unistd.h>\n', 'only in lib/'),
    ('an unknown library', 'lib/base/b.cpp', HEAD + '#include <absl/strings/str_cat.h>\n', 'not in the table'),
    ('a private header in an app', 'apps/hello/b.cpp', HEAD + '#include "schedule/a.hpp"\n', 'is private'),
    ('a private header in a public one', 'include/lockstep/core/b.hpp',
     HEAD + '#pragma once\n#include "base/a.hpp"\n', 'only <lockstep/...>'),
    ('a public header in quotes', 'lib/core/b.cpp', HEAD + '#include "lockstep/core/a.hpp"\n', 'write <'),
    ('a path upward', 'lib/core/b.cpp', HEAD + '#include "../base/a.hpp"\n', 'no relative paths'),
    ('a path from the own folder', 'lib/transport/mpi/b.cpp', HEAD + '#include "b.hpp"\n', 'from lib/'),
    ('a header that does not exist', 'apps/hello/b.cpp', HEAD + '#include <lockstep/core/gone.hpp>\n', 'does not exist'),
    ('no #pragma once', 'include/lockstep/core/b.hpp', HEAD + '#include <vector>\n', 'pragma once'),
    ('detail in a signature', 'include/lockstep/core/b.hpp',
     HEAD + '#pragma once\nLOCKSTEP_API detail::Plan make_plan();\n', 'lockstep::detail'),
    ('no SPDX lines', 'lib/core/b.cpp', '#include <vector>\n', 'SPDX'),
    ('no SPDX lines in a script', 'tests/b.sh', '#!/bin/sh\necho\n', 'SPDX'),
    ('-march=native', 'lib/meson.build', HASH_HEAD + "cpp_args = ['-march=native']\n", '-march=native'),
    ('contraction on GPUs', 'lib/meson.build', HASH_HEAD + "nvcc_args = ['-fmad=true']\n", '-fmad=true'),
    ('-ffast-math', 'meson.build', HASH_HEAD + "cpp_args = ['-ffast-math']\n", '-ffast-math'),
]


def violations(files):
    with tree(files) as root:
        return Lint(root).run()


def main():
    checks = Checks()
    found = violations(CLEAN)
    checks.check('a clean tree has no violation', not found, '\n'.join(found))
    for name, path, text, message in PLANTED:
        found = violations({**CLEAN, path: text})
        good = bool(found) and message in found[0] and all(line.startswith(path + ':') for line in found)
        checks.check(f'finds {name}', good, '\n'.join(found))
    return checks.end()


if __name__ == '__main__':
    sys.exit(main())
