// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "work.hpp"

#include <c10/util/Exception.h>

namespace lockstep_torch {

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(future_mutex_);
    if (future_) return future_;
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    if (!is_done_) return future_;
    future = future_;
  }
  mark(*future);
  return future;
}

void Work::complete(const std::exception_ptr& error) {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(future_mutex_);
    error_ = error;
    is_done_ = true;
    future = future_;
  }
  finish(error);
  if (future) mark(*future);
}

/// Called by the thread that set the later one of `future_` and `is_done_`.
void Work::mark(c10::ivalue::Future& future) const {
  try {
    if (error_) {
      future.setError(error_);
    } else {
      future.markCompleted(c10::IValue(outputs_));
    }
  } catch (const std::exception& error) {
    TORCH_WARN("lockstep: a callback of a future has thrown an exception: ", error.what());
  }
}

}  // namespace lockstep_torch
