// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The manifest of a checkpoint: every input is a manifest, which is unchanged after writing and reading it again, or
// throws Error(data_loss) or Error(unimplemented).

#include "target.hpp"

#include "checkpoint/manifest.hpp"

#include <lockstep/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::detail;
  try {
    const std::string text = to_text(parse_manifest(std::string(reinterpret_cast<const char*>(data), size), "input"));
    if (to_text(parse_manifest(text, "input")) != text) std::abort();
  } catch (const lockstep::Error& error) {
    if (error.code() != lockstep::Code::data_loss && error.code() != lockstep::Code::unimplemented) std::abort();
  }
  return 0;
}
