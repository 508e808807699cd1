// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/error.hpp>

#include <functional>
#include <string>

namespace lockstep_torch {

/// Throws c10::DistBackendError with `text`, which is torch.distributed.DistBackendError in Python.
[[noreturn]] void throw_error(const std::string& text);

/// Calls `body` and returns its result. An error of lockstep becomes c10::DistBackendError.
template <class Body>
decltype(auto) with_torch_errors(const Body& body) {
  try {
    return body();
  } catch (const lockstep::Error& error) {
    throw_error(error.what());
  }
}

/// Calls `body` without Python's global interpreter lock, whether or not this thread holds it.
void without_gil(const std::function<void()>& body);

}  // namespace lockstep_torch
