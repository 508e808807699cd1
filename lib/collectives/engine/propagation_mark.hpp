// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The mark inside an Error that says that all ranks of a communicator know of the error.

#pragma once

#include <lockstep/base/error.hpp>

#include <memory>
#include <utility>

namespace lockstep::detail {

/// The mark of a communicator is a pointer to an object that identifies the communicator. Errors with this mark keep
/// the object alive, so no other communicator can have the same mark.
struct PropagationMark {
  using Pointer = std::shared_ptr<const void>;

  [[nodiscard]] static const Pointer& of(const Error& error) noexcept { return error.propagated_on_; }
  static void set(Error& error, Pointer mark) noexcept { error.propagated_on_ = std::move(mark); }
};

}  // namespace lockstep::detail
