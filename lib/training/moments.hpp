// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What Adam and Lamb share: running means of gradients and of their squares.

#pragma once

#include "base/check.hpp"

#include <string_view>

namespace lockstep::detail {

/// Throws Error(invalid_argument) for factors with which the moments mean nothing.
template <class Options>
void check_moments(std::string_view optimizer, const Options& options) {
  const auto is_decay = [](float beta) { return beta >= 0.0F && beta < 1.0F; };
  if (!is_decay(options.beta_1) || !is_decay(options.beta_2)) {
    throw_error(Code::invalid_argument, "{}: beta_1 is {}, beta_2 {}; both must be at least 0 and below 1", optimizer,
                options.beta_1, options.beta_2);
  }
  if (!(options.epsilon > 0.0F))
    throw_error(Code::invalid_argument, "{}: epsilon is {}; it must be positive", optimizer, options.epsilon);
}

}  // namespace lockstep::detail
