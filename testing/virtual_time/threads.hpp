// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <pthread.h>

namespace lockstep::virtual_time::detail {

/// Must be called before the first thread of a run is created.
void prepare_threads();
/// Creates a thread that belongs to no run.
int create_outside_of_runs(pthread_t* handle, void* (*start)(void*), void* argument);

}  // namespace lockstep::virtual_time::detail
