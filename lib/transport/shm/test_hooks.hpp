// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How tests disturb one rank of a node. Production code has no hooks: the pointer to them is null.

#pragma once

#include <cstddef>

namespace lockstep::detail {

struct TestHooks {
  void (*at_flag)() = nullptr;  ///< called before a flag is written or read: may wait
  bool (*hides_memory)(const void* data) =
      nullptr;  ///< called for each buffer of an operation: whether to hide it from other ranks
  std::size_t most_staged_bytes = std::size_t{256} << 20;  ///< of inputs of a rank; more go by messages
};

}  // namespace lockstep::detail
