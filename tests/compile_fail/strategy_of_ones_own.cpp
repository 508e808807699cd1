// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: StrategyOfTheLibrary

#include <lockstep/lockstep.hpp>

struct Mine : lockstep::Strategy {
  Mine() : Strategy(nullptr) {}
};
