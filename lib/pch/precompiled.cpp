// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A source for the target that precompiles standard.hpp.

namespace lockstep::detail {
extern const int precompiled;
const int precompiled = 1;
}  // namespace lockstep::detail
