// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace lockstep::detail {

/// The quantile function of the standard normal distribution for 0 < p < 1, to about 16 digits: algorithm AS 241,
/// PPND16 (Wichura, Applied Statistics 37, 1988).
[[nodiscard]] double normal_quantile(double p) noexcept;

}  // namespace lockstep::detail
