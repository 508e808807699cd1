// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep_torch {

/// One call of the backend. Thread-safe.
class Work final : public c10d::Work {
 public:
  /// `title`: the name of the call for torch's profiler. `outputs`: the value of the future.
  Work(int rank, c10d::OpType type, const char* title, std::uint64_t sequence, std::vector<at::Tensor> outputs)
      : c10d::Work(rank, type, title), sequence_(sequence), outputs_(std::move(outputs)) {}

  [[nodiscard]] std::vector<at::Tensor> result() override { return outputs_; }
  [[nodiscard]] std::uint64_t getSequencenumber() const override { return sequence_; }
  /// The future is made at the first call, since most calls need none.
  [[nodiscard]] c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  /// Called once, when the call has ended; `error` is null if it has succeeded. Runs the callbacks of the future.
  void complete(const std::exception_ptr& error);

 private:
  void mark(c10::ivalue::Future& future) const;

  const std::uint64_t sequence_;
  const std::vector<at::Tensor> outputs_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // guarded by future_mutex_
  bool is_done_ = false;                            // guarded by future_mutex_
  std::exception_ptr error_;                        // written before is_done_ is set, then constant
};

}  // namespace lockstep_torch
