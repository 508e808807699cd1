// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace lockstep {
class Environment;
}

namespace lockstep::test {

/// The environment that mpi_main.cpp has created.
const Environment& environment();

}  // namespace lockstep::test
