// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls a fuzz target with each file of a folder, instead of libFuzzer.

#include "target.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include <sys/resource.h>

int main(int argc, char** argv) {
  constexpr long most_memory_kib = 512 * 1024;
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    std::printf("%s, %zu bytes\n", path.filename().c_str(), bytes.size());
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf("%zu files, %ld KiB of memory\n", files.size(), used.ru_maxrss);
  if (used.ru_maxrss > most_memory_kib) std::printf("that is more than %ld KiB\n", most_memory_kib);
  return !files.empty() && used.ru_maxrss <= most_memory_kib ? 0 : 1;
}
