// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "model/performer.hpp"

#include <cstdint>

namespace lockstep::test {

void add_nests_of_signed(std::vector<Nest>& nests) {
  NestsOf<std::int8_t>(nests).all();
  NestsOf<std::int16_t>(nests).all();
  NestsOf<std::int32_t>(nests).all();
  NestsOf<std::int64_t>(nests).all();
}

}  // namespace lockstep::test
