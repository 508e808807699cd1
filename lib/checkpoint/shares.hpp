// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/tensor_view.hpp>

namespace lockstep::detail {

/// target = what replica `replica` of `replicas` gets of `total`, element by element, so that the canonical sum of all
/// replicas' is `total` exactly: total / replicas; of integers without remainder, which goes to the first replicas; and
/// where the quotients do not add up, everything for replica 0 and nothing for the others. Not for bool.
void write_exact_share(TensorView target, ConstTensorView total, int replica, int replicas);

}  // namespace lockstep::detail
