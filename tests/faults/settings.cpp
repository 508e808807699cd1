// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "settings.hpp"

#include <functional>
#include <map>
#include <stdexcept>

namespace faults {

std::uint64_t Settings::draw(std::uint64_t what, std::uint64_t count) const {
  std::uint64_t mixed = (seed + 0x9e3779b97f4a7c15U * (what + 1));  // splitmix64
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return (mixed ^ (mixed >> 31U)) % count;
}

Settings read_settings(int argc, char** argv) {
  Settings settings;
  const std::map<std::string, std::function<void(const std::string&)>> readers{
      {"event", [&](const std::string& word) { settings.event = word; }},
      {"moment", [&](const std::string& word) { settings.moment = word; }},
      {"interface", [&](const std::string& word) { settings.interface = word; }},
      {"culprit", [&](const std::string& word) { settings.culprit = std::stoi(word); }},
      {"fail", [&](const std::string& word) { settings.fail_seconds = std::stod(word); }},
      {"recover", [&](const std::string& word) { settings.recover_seconds = std::stod(word); }},
      {"elements", [&](const std::string& word) { settings.large_elements = std::stoll(word); }},
      {"seed", [&](const std::string& word) { settings.seed = std::stoull(word); }},
      {"folder", [&](const std::string& word) { settings.folder = word; }},
  };
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t end = word.find('=');
    const auto reader = readers.find(word.substr(0, end));
    if (end == std::string::npos || reader == readers.end()) throw std::invalid_argument("unknown argument " + word);
    reader->second(word.substr(end + 1));
  }
  return settings;
}

}  // namespace faults
