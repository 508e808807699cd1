// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace lockstep {
class Environment;
}

namespace lockstep::test {

/// The one that mpi_main.cpp made.
const Environment& environment();

}  // namespace lockstep::test
