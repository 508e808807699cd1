// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// SipHash-2-4 with a result of 128 bits (Aumasson and Bernstein, 2012), a message authentication code for short
// messages: it cannot be computed without the key.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::detail {

using SipHashKey = std::array<std::uint64_t, 2>;
using SipHashCode = std::array<std::uint64_t, 2>;

[[nodiscard]] SipHashCode siphash(const SipHashKey& key, std::span<const std::byte> data) noexcept;

}  // namespace lockstep::detail
