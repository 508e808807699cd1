// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Nests of every structure of every element type.

#include "model/judge.hpp"

namespace lockstep::test {

void add_nests(std::vector<Nest>& nests) {
  add_nests_of_tensors(nests);
  add_nests_of_floats(nests);
  add_nests_of_signed(nests);
  add_nests_of_unsigned(nests);
}

}  // namespace lockstep::test
