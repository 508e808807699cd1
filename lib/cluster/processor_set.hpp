// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Processors by the operating system's numbers, of one size everywhere, so that ranks can exchange them.

#pragma once

#include <bitset>
#include <string>
#include <vector>

namespace lockstep::detail {

inline constexpr std::size_t most_processors = 8192;
using ProcessorSet = std::bitset<most_processors>;

/// Those that the calling thread may run on; none where the system does not say.
[[nodiscard]] ProcessorSet allowed_processors() noexcept;

[[nodiscard]] std::vector<int> numbers_of(const ProcessorSet& set);
[[nodiscard]] ProcessorSet set_of(const std::vector<int>& numbers);

/// "0-3,8"; "none".
[[nodiscard]] std::string to_string(const ProcessorSet& set);

}  // namespace lockstep::detail
