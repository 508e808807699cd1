// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "model/performer.hpp"

#include <cstdint>

namespace lockstep::test {

void add_nests_of_signed(std::vector<Nest>& nests) {
  add_nests_of<std::int8_t>(nests);
  add_nests_of<std::int16_t>(nests);
  add_nests_of<std::int32_t>(nests);
  add_nests_of<std::int64_t>(nests);
}

}  // namespace lockstep::test
