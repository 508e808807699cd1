// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A library that uses lockstep by itself. NAME is its name.

#include "environments.hpp"

#define JOIN(a, b) a##b
#define FUNCTION(name) JOIN(step_of_, name)
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

extern "C" __attribute__((visibility("default"))) bool FUNCTION(NAME)(char action) {
  static auto* const part = new parts::Part(TEXT(NAME));  // ended by its last step, not by static destruction
  return part->step(action);
}
