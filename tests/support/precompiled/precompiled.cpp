// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A source for the target that precompiles tests.hpp.

namespace lockstep::test {
extern const int precompiled;
const int precompiled = 1;
}  // namespace lockstep::test
