// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "target.hpp"

#include <lockstep/checkpoint/safetensors.hpp>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run(data, size, [](const auto& path) {
    const lockstep::SafetensorsFile file = lockstep::load_safetensors(path);
    for (const auto& [name, tensor] : file.tensors) fuzz::look_at(tensor);
  });
  return 0;
}
