// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "schedule/levels.hpp"

namespace lockstep::detail {

/// The socket and the last-level cache of the processors that this process may use; see `place_of` in topology.hpp. The
/// first call reads the topology of the host, which takes some milliseconds; later calls return the same place. If
/// hwloc fails, the numbers are -1.
[[nodiscard]] NodePlace place_of_this_process();

}  // namespace lockstep::detail
