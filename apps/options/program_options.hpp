// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Options come from the command line, then from environment variables, then from a configuration file. A job is one
// program, so its options must be equal on all ranks.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include <boost/program_options.hpp>

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace options {

/// By option, the place that set it, for options that the command line does not set: "variable LOCKSTEP_TRAIN_EPOCHS",
/// or "--config \"FILE\": epochs".
using Sources = std::map<std::string, std::string>;

/// Reads the options `all`. Names of options cannot be abbreviated. Variables begin with `prefix`:
/// LOCKSTEP_TRAIN_GLOBAL_BATCH is global-batch. The value of the option "config" is the name of the configuration file.
/// Adds to `sources`. Local. Throws OptionError.
[[nodiscard]] boost::program_options::variables_map read(int argc, const char* const* argv,
                                                         const boost::program_options::options_description& all,
                                                         std::string_view prefix, Sources& sources);

/// `text`, the text of an OptionError. If it begins with an option in `sources`, such as "--epochs" or "-b/--minbytes",
/// that place stands instead of the option.
[[nodiscard]] std::string with_source(const Sources& sources, const std::string& text);

/// The values of options as text, by option.
using Values = std::map<std::string, std::string>;

/// The given values, except those of the options `of_one_rank`, which may differ between ranks. Local.
[[nodiscard]] Values given_values(const boost::program_options::variables_map& values,
                                  const std::set<std::string>& of_one_rank);

/// A text that names an option that differs between ranks, two of its values and their ranks, equal on all ranks; empty
/// if all ranks have the same options. Collective over `job`, which has one replica per rank; waits no longer than its
/// deadline.
[[nodiscard]] std::string find_mismatch(const lockstep::Communicator& job, const Values& values);

/// `text` for a terminal: control characters and bytes that are not UTF-8, as a file that is not a text has them, are
/// escaped, and a long text is cut.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace options
