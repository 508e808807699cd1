// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// must not compile: Tensor

#include <lockstep/lockstep.hpp>

float misuse(const lockstep::Tensor& loss) { return loss; }
