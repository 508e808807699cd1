// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "model/performer.hpp"

#include <cstdint>

namespace lockstep::test {

void add_nests_of_unsigned(std::vector<Nest>& nests) {
  NestsOf<bool>(nests).all();
  NestsOf<std::uint8_t>(nests).all();
  NestsOf<std::uint16_t>(nests).all();
  NestsOf<std::uint32_t>(nests).all();
  NestsOf<std::uint64_t>(nests).all();
}

}  // namespace lockstep::test
