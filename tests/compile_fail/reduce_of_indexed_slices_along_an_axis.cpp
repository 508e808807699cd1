// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: IndexedSlices cannot be reduced along axes; pass std::nullopt as the axis, or reduce
// to_dense(value)

#include <lockstep/lockstep.hpp>

void misuse(lockstep::Strategy& strategy, const lockstep::PerReplica<lockstep::IndexedSlices>& rows) {
  (void)strategy.reduce("SUM", rows, 0);
}
