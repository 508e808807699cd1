// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A collective that is prepared once and run many times.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/request.hpp>

#include <memory>

namespace lockstep {

/// A prepared collective, made by `Communicator::prepare_all_reduce`: checks, schedule and addresses are determined
/// once, and a run allocates no memory and makes no system call unless it must wait. The caller owns the buffers, which
/// must stay allocated at the same addresses as long as the plan is run. Move-only. Thread-safety: one thread at a
/// time.
class LOCKSTEP_API Plan {
 public:
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan();

  /// Does what the prepared call does, and throws what it throws. Collective; a rank may call the unprepared form
  /// instead. Throws Error(failed_precondition) if a buffer in the arena was freed after the preparation, or if an
  /// asynchronous run of this plan is not complete. After an Error the plan can be run again if the communicator is
  /// still usable.
  void run();
  /// As `run`, asynchronously. Collective.
  [[nodiscard]] Request run_async();

 private:
  friend class Communicator;
  struct State;
  explicit Plan(std::unique_ptr<State> state) noexcept;

  std::unique_ptr<State> state_;
};

}  // namespace lockstep
