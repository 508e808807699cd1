// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "target.hpp"

#include <lockstep/input/npy.hpp>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run(data, size, [](const auto& path) {
    for (const auto& [name, array] : lockstep::input::read_npz(path)) fuzz::look_at(array);
  });
  fuzz::run(data, size, [](const auto& path) {
    fuzz::read_some(lockstep::npz_dataset<std::pair<lockstep::Tensor, lockstep::Tensor>>({path}, {"x", "y"}));
  });
  return 0;
}
