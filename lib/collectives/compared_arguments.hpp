// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "collectives/call/descriptor.hpp"

#include <lockstep/collectives/communicator.hpp>

#include <string_view>

namespace lockstep::detail {

/// While a ComparedArguments exists, the ranks also compare `arguments` in all collectives of `communicator`. For a
/// library function whose arguments decide its result, but do not show in the collectives that it makes: `"axis 0"` of
/// a reduction that has summed over the axis before. If the texts of ranks differ, the collective throws
/// Error(mismatch) on all ranks, and the text of the error has both. Inside of another ComparedArguments, the ranks
/// compare the arguments of both. Local. Objects must be destroyed in the reverse order of their construction. Costs
/// nothing if there is one rank or if the text is empty; never allocates memory.
class ComparedArguments {
 public:
  ComparedArguments(const Communicator& communicator, std::string_view arguments);
  ComparedArguments(const ComparedArguments&) = delete;
  ComparedArguments& operator=(const ComparedArguments&) = delete;
  ~ComparedArguments();

 private:
  const Communicator* communicator_;  // null if there is nothing to compare
  CallerArguments replaced_;          // arguments of the enclosing call
};

}  // namespace lockstep::detail
