// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <pthread.h>

namespace lockstep::virtual_time::detail {

/// As pthread_mutex_unlock, in a run or outside of one; the calling thread keeps its turn.
int unlock(pthread_mutex_t* mutex) noexcept;

}  // namespace lockstep::virtual_time::detail
