// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The default memory resource that the library chooses.

#pragma once

#include <lockstep/device/memory_resource.hpp>

#include <memory>

namespace lockstep::detail {

/// Installs `resource` as the default unless the program has called set_default_memory_resource. Thread-safe.
void offer_default_memory_resource(std::shared_ptr<MemoryResource> resource);

}  // namespace lockstep::detail
