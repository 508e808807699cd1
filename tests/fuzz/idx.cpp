// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "target.hpp"

#include <lockstep/input/idx.hpp>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run(data, size, [](const auto& path) { fuzz::look_at(lockstep::input::read_idx(path)); });
  fuzz::run(data, size, [](const auto& path) { fuzz::read_some(lockstep::idx_dataset({path})); });
  return 0;
}
