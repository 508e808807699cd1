// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The flag inside an Error that says that all ranks of a communicator know of it.

#pragma once

#include <lockstep/base/error.hpp>

#include <memory>
#include <utility>

namespace lockstep::detail {

/// A communicator's mark is an object that identifies it; errors that carry the mark keep the object alive, so no other
/// communicator can have the same.
struct PropagationMark {
  using Pointer = std::shared_ptr<const void>;

  [[nodiscard]] static const Pointer& of(const Error& error) noexcept { return error.propagated_on_; }
  static void set(Error& error, Pointer mark) noexcept { error.propagated_on_ = std::move(mark); }
};

}  // namespace lockstep::detail
