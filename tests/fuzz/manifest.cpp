// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The manifest of a checkpoint: the text as it is, and as the content of a manifest whose checksum is right.

#include "checkpoint/manifest.hpp"

#include "base/crc32c.hpp"
#include "base/json_reader.hpp"

#include "target.hpp"

#include <lockstep/base/error.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

namespace {

using namespace lockstep::detail;

/// A manifest that is accepted is unchanged after writing and reading it again.
void read(const std::string& text) {
  try {
    const std::string written = to_text(parse_manifest(text, "manifest"));
    if (to_text(parse_manifest(written, "manifest")) != written) std::abort();
  } catch (const lockstep::Error& error) {
    if (error.code() != lockstep::Code::data_loss && error.code() != lockstep::Code::unimplemented) std::abort();
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text);
  try {
    nlohmann::json body = *read_json(text);
    if (!body.is_object()) return 0;
    body["format"] = "lockstep checkpoint";
    const std::string content = body.dump();
    const std::uint32_t checksum = crc32c(std::as_bytes(std::span(content)));
    read(nlohmann::json{{"checkpoint", std::move(body)}, {"crc32c", checksum}}.dump());
  } catch (const JsonError&) {  // NOLINT(bugprone-empty-catch)
  }
  return 0;
}
