// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "model/performer.hpp"

#include <cstdint>

namespace lockstep::test {

void add_nests_of_unsigned(std::vector<Nest>& nests) {
  add_nests_of<bool>(nests);
  add_nests_of<std::uint8_t>(nests);
  add_nests_of<std::uint16_t>(nests);
  add_nests_of<std::uint32_t>(nests);
  add_nests_of<std::uint64_t>(nests);
}

}  // namespace lockstep::test
