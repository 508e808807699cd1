// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Metrics of a rank: of every input there is a summary, or no record.

#include "target.hpp"

#include "run/metrics.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

/// The file of rank 0, which has a name of its own.
std::filesystem::path folder() {
  std::string name = (std::filesystem::temp_directory_path() / "lockstep-fuzz-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) std::abort();
  return name;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const struct Folder {
    std::filesystem::path path = folder();
    Folder() = default;
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path); }
  } own;
  std::ofstream(own.path / "metrics.rank0.jsonl", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const std::vector<run::RankMetrics> found = run::read_metrics(own.path / "metrics.jsonl", 1, 0);
  if (!found.empty()) {
    volatile std::size_t sink = run::summarize(found).values.size();
    static_cast<void>(sink);
  }
  return 0;
}
