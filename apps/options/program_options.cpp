// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "apps/options/program_options.hpp"

#include "apps/options/option_error.hpp"
#include "apps/options/placeholder.hpp"
#include "base/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace options {
namespace {

namespace po = boost::program_options;

/// The option of a variable; empty for variables without the prefix, which are ignored.
std::string option_of_variable(const std::string& variable, std::string_view prefix,
                               const po::options_description& all) {
  if (!variable.starts_with(prefix)) return {};
  std::string name = variable.substr(prefix.size());
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(c)); });
  if (all.find_nothrow(name, false) == nullptr)
    refuse("environment variable {}: there is no option --{}; --help lists the options", variable, name);
  return name;
}

/// Runs `read`; adds the source of the option, or `place` if it is unknown, to Boost's error texts.
void read_from(std::string_view place, const Sources& sources, const std::function<void()>& read) {
  try {
    read();
  } catch (const po::invalid_config_file_syntax& error) {
    refuse("{}: \"{}\" is not NAME=VALUE; write one option per line, such as seed=3", place, error.tokens());
  } catch (const po::error_with_option_name& error) {
    const std::string name = error.get_option_name();
    const auto found = sources.find(name.substr(std::min(name.find_first_not_of('-'), name.size())));
    refuse("{}: {}; --help lists the options", found != sources.end() ? found->second : place, error.what());
  } catch (const po::error& error) {
    refuse("{}: {}; --help lists the options", place, error.what());
  }
}

void refuse_placeholders(const std::string& place, std::string_view text) {
  if (const std::string_view word = placeholder_in(text); !word.empty())
    refuse("{}: names and values of options must not have \"{}\", a word between percent signs", place, word);
}

/// Whether no place that was read before has set the option.
bool is_free(const po::variables_map& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() || found->second.defaulted();
}

void read_file(const std::string& name, const po::options_description& all, po::variables_map& values,
               Sources& sources) {
  const std::string place = with_source(sources, fmt::format("--config \"{}\"", name));
  std::error_code error;
  if (std::filesystem::is_directory(name, error)) refuse("{}: the file cannot be read: it is a directory", place);
  std::ifstream file(name);
  if (!file) refuse("{}: the file cannot be read: {}", place, std::generic_category().message(errno));
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  refuse_placeholders(place, text);
  std::istringstream lines(text);
  read_from(place, sources, [&] {
    const po::parsed_options parsed = po::parse_config_file(lines, all);
    for (const po::option& option : parsed.options) {
      if (is_free(values, option.string_key))
        sources[option.string_key] = fmt::format("{}: {}", place, option.string_key);
    }
    po::store(parsed, values);
  });
}

/// Replaces `text` by that of rank `root`. Collective.
void broadcast(const lockstep::Communicator& job, int root, std::string& text) {
  std::uint64_t size = text.size();
  job.broadcast(std::span(&size, 1), root);
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  bytes.resize(size);
  if (size != 0) job.broadcast(std::span(bytes), root);
  text.assign(bytes.begin(), bytes.end());
}

/// The names and values, each followed by a zero byte.
std::string text_of(const Values& values) {
  std::string text;
  for (const auto& [name, value] : values) text.append(name).append(1, '\0').append(value).append(1, '\0');
  return text;
}

Values values_of(std::string_view text) {
  const auto next = [&text] {
    const std::size_t end = text.find('\0');
    std::string part(text.substr(0, end));
    text.remove_prefix(end + 1);
    return part;
  };
  Values values;
  while (!text.empty()) {
    std::string name = next();
    values[std::move(name)] = next();
  }
  return values;
}

/// The first difference of this rank's values from those of rank 0; empty if there is none.
std::string first_difference(const Values& of_rank_0, const Values& values, int rank) {
  const auto value = [](const Values& from, const std::string& name) {
    const auto found = from.find(name);
    return found == from.end() ? std::string("not given") : fmt::format("\"{}\"", found->second);
  };
  Values all = of_rank_0;
  all.insert(values.begin(), values.end());
  for (const auto& [name, _] : all) {
    const std::string here = value(values, name);
    const std::string there = value(of_rank_0, name);
    if (here != there) {
      return fmt::format(
          "mismatch: --{} is {} on rank 0, but {} on rank {}; give all ranks the same options, variables "
          "and configuration file",
          name, there, here, rank);
    }
  }
  return {};
}

}  // namespace

po::variables_map read(int argc, const char* const* argv, const po::options_description& all, std::string_view prefix,
                       Sources& sources) {
  constexpr int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  for (int k = 1; k < argc; ++k) refuse_placeholders("command line", argv[k]);
  // the first stored value of an option wins
  read_from("command line", sources, [&] {
    const po::parsed_options parsed = po::command_line_parser(argc, argv).options(all).style(style).run();
    for (const po::option& option : parsed.options) {
      if (option.position_key >= 0)
        refuse("command line: \"{}\" is not an option; --help lists the options", option.value.front());
      // Boost takes the next word as the value of an option, also if this word is another option
      if (option.original_tokens.size() > 1 && option.value.front().starts_with("--")) {
        refuse("command line: --{} has no value: the next word is the option \"{}\"; --help lists the options",
               option.string_key, option.value.front());
      }
    }
    po::store(parsed, values);
  });
  read_from(fmt::format("environment variables {}*", prefix), sources, [&] {
    const auto option = [&](const std::string& variable) {
      std::string name = option_of_variable(variable, prefix, all);
      if (const char* const value = std::getenv(variable.c_str()); !name.empty() && value != nullptr)
        refuse_placeholders("environment variable " + variable, value);
      if (!name.empty() && is_free(values, name)) sources[name] = "environment variable " + variable;
      return name;
    };
    po::store(po::parse_environment(all, option), values);
  });
  if (values.count("config") != 0) read_file(values["config"].as<std::string>(), all, values, sources);
  po::notify(values);
  return values;
}

std::string with_source(const Sources& sources, const std::string& text) {
  const std::size_t end = std::min(text.find_first_of(" :"), text.size());
  const std::size_t dashes = text.rfind("--", end);
  if (!text.starts_with('-') || dashes >= end) return text;
  const auto found = sources.find(text.substr(dashes + 2, end - dashes - 2));
  return found == sources.end() ? text : found->second + text.substr(end);
}

Values given_values(const po::variables_map& values, const std::set<std::string>& of_one_rank) {
  Values given;
  for (const auto& [name, value] : values) {
    if (value.defaulted() || of_one_rank.contains(name)) continue;
    const auto* const text = boost::any_cast<std::string>(&value.value());
    given[name] = text != nullptr ? *text : "yes";  // a switch
  }
  return given;
}

std::string find_mismatch(const lockstep::Communicator& job, const Values& values) {
  std::string of_rank_0 = text_of(values);
  broadcast(job, 0, of_rank_0);
  std::string text = first_difference(values_of(of_rank_0), values, job.rank());
  constexpr int none = std::numeric_limits<int>::max();
  const int first = job.all_reduce(text.empty() ? none : job.rank(), lockstep::ReduceOp::min);
  if (first == none) return {};
  broadcast(job, first, text);
  return text;
}

std::string printable(std::string_view text) {
  constexpr std::size_t most = 800;
  const std::string shown = lockstep::detail::printable(text.substr(0, most));
  return text.size() > most ? shown + "..." : shown;
}

}  // namespace options
