// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Names and help texts of the options.

#pragma once

#include <boost/program_options.hpp>

#include <string>

namespace perf {

/// All values but switches are read as text, so that each error can show what was written. Local.
[[nodiscard]] boost::program_options::options_description option_description();

/// What --help prints. Local.
[[nodiscard]] std::string help_text(const boost::program_options::options_description& all);

}  // namespace perf
