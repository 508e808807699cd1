// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: a map of arrays must be a std::map, and its keys must be std::string

#include <lockstep/lockstep.hpp>

#include <map>
#include <vector>

auto misuse(const std::map<int, std::vector<float>>& columns) { return lockstep::array_dataset(columns); }
