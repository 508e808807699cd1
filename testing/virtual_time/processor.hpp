// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The processor on which the threads of a run take turns, one at a time: to hand the turn to a thread of another
// processor takes twice the time.

#pragma once

#include <sys/types.h>

namespace lockstep::virtual_time::detail {

/// Binds the calling thread, and so the threads that it will create, to the processor on which it is.
void use_one_processor() noexcept;
/// The calling thread may run on all processors that it had before.
void use_all_processors() noexcept;
/// In the child of a fork, whose processor time begins anew.
void look_again() noexcept;
/// Whether other processes take so much of this processor that the run should move. Then the next one of the program is
/// chosen, and each thread must be bound to it.
[[nodiscard]] bool must_move() noexcept;
void bind(pid_t thread) noexcept;

}  // namespace lockstep::virtual_time::detail
