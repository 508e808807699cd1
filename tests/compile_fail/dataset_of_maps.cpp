// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: arrays must be a Tensor

#include <lockstep/lockstep.hpp>

#include <map>
#include <string>
#include <vector>

auto misuse(const std::map<std::string, std::vector<float>>& columns) { return lockstep::array_dataset(columns); }
