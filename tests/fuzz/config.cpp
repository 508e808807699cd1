// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Files of options (--config): every input sets options, or throws OptionError.

#include "target.hpp"

#include "apps/options/option_error.hpp"
#include "apps/options/program_options.hpp"

#include <boost/program_options.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace po = boost::program_options;
  const fuzz::File file(data, size);
  po::options_description all;
  auto add = all.add_options();
  add("config", po::value<std::string>());
  add("seed", po::value<std::uint64_t>()->default_value(7));
  add("name,n", po::value<std::string>());
  add("quiet", po::bool_switch());
  const std::string path = file.path();
  const std::array<const char*, 3> words{"program", "--config", path.c_str()};
  try {
    options::Sources sources;
    static_cast<void>(options::read(static_cast<int>(words.size()), words.data(), all, "LOCKSTEP_FUZZ_", sources));
  } catch (const options::OptionError&) {  // NOLINT(bugprone-empty-catch)
  }
  return 0;
}
