// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "model/performer.hpp"

#include <cstdint>

namespace lockstep::test {

void add_nests_of_floats(std::vector<Nest>& nests) {
  NestsOf<Float16>(nests).all();
  NestsOf<BFloat16>(nests).all();
  NestsOf<float>(nests).all();
  NestsOf<double>(nests).all();
}

}  // namespace lockstep::test
