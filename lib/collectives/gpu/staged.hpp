// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A collective on GPUs that hosts do: the inputs have been copied to host memory, an operation of hosts works there,
// and its results are copied to the devices. Its bits are those of the hosts.

#pragma once

#include "collectives/call/host_copies.hpp"
#include "collectives/engine/operation.hpp"

#include <memory>

namespace lockstep::detail {

/// `inner` works on `copies`, into which the inputs have been fetched.
[[nodiscard]] std::shared_ptr<Operation> make_staged(const Descriptor& descriptor, std::shared_ptr<Operation> inner,
                                                     std::unique_ptr<HostCopies> copies);

}  // namespace lockstep::detail
