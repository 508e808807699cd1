// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "model/performer.hpp"

#include <cstdint>

namespace lockstep::test {

void add_nests_of_floats(std::vector<Nest>& nests) {
  add_nests_of<Float16>(nests);
  add_nests_of<BFloat16>(nests);
  add_nests_of<float>(nests);
  add_nests_of<double>(nests);
}

}  // namespace lockstep::test
