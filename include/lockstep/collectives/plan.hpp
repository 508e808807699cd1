// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A collective that is prepared once and run many times.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/owned.hpp>
#include <lockstep/collectives/request.hpp>

namespace lockstep {

/// A prepared collective, made by `Communicator::prepare_all_reduce`. The checks are made, and the schedule and the
/// addresses are computed, only once. A run allocates no memory, and makes no system call unless it must wait. The
/// caller owns the buffers, which must stay allocated at the same addresses until the last run is complete. Move-only.
/// Thread-safety: one thread at a time.
class LOCKSTEP_API Plan {
 public:
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan();

  /// Has the same effect and the same errors as the call that was prepared. Collective; other ranks may make that call
  /// without a plan instead. Throws Error(failed_precondition) if a buffer in the arena was freed after the
  /// preparation, if an asynchronous run of this plan is not complete, or if the plan has been moved from. After an
  /// Error, the plan can be run again if the communicator can still be used.
  void run();
  /// As `run`, asynchronously. Collective.
  [[nodiscard]] Request run_async();

 private:
  friend class Communicator;
  struct State;
  explicit Plan(Owned<State> state) noexcept;

  Owned<State> state_;
};

}  // namespace lockstep
