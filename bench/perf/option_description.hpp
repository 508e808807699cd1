// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Names and help texts of the options.

#pragma once

#include <boost/program_options.hpp>

#include <string>

namespace perf {

/// All values except switches are read as text, so that each error can quote it. Local.
[[nodiscard]] boost::program_options::options_description option_description();

/// The text of --help. Local.
[[nodiscard]] std::string help_text(const boost::program_options::options_description& all);

}  // namespace perf
