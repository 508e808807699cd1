// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The batch system wants the machine back: it sends a signal, and a while later ends the job. All ranks stop at the
// same step, save there, and leave with an exit code that says "start me again".

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communicator.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

class Strategy;

struct PreemptionOptions {
  /// Numbers of the signals that ask for an end. Default: SIGTERM and SIGUSR1 (Slurm: `sbatch --signal=USR1@120`).
  std::vector<int> signals = {};
  /// Calls of `should_stop` from one question to the other ranks to the next, at least 1. More: cheaper, later.
  int check_every = 1;
};

/// Waits for a signal as long as it lives:
///
///   PreemptionGuard guard(strategy);
///   for (...) {
///     strategy.run(step, ...);
///     if (guard.should_stop()) {
///       checkpoint.save(directory, step);
///       return PreemptionGuard::exit_code;
///     }
///   }
///
/// The handler sets a flag and does nothing else. At the end the signals have their former handlers again. One guard at
/// a time in a process. Pinned. Thread-safety: one thread at a time; the signal may come to any.
class LOCKSTEP_API PreemptionGuard {
 public:
  /// EX_TEMPFAIL of <sysexits.h>: saved, and to be started again. 0 would say that the work is done.
  static constexpr int exit_code = 75;

  /// Local. Throws Error(failed_precondition) while there is another guard, Error(invalid_argument) for what is no
  /// signal that can be handled, and for a `check_every` below 1.
  explicit PreemptionGuard(Strategy& strategy, const PreemptionOptions& options = {});
  PreemptionGuard(const PreemptionGuard&) = delete;
  PreemptionGuard& operator=(const PreemptionGuard&) = delete;
  ~PreemptionGuard();

  /// Whether any rank has got a signal before its call; the same on all ranks, and true ever after. Collective, in
  /// cross-replica context or outside of every scope: all ranks call it after the same steps. Cost: one all_reduce of 4
  /// bytes, every check_every-th call: some microseconds on a node, a few messages' latency between nodes.
  [[nodiscard]] bool should_stop();
  /// Whether this rank has got a signal. Local.
  [[nodiscard]] bool has_signal() const noexcept;

 private:
  struct Handlers;
  Communicator communicator_;
  std::unique_ptr<Handlers> handlers_;
  int check_every_;
  std::int64_t calls_ = 0;
  bool stopping_ = false;
};

}  // namespace lockstep
