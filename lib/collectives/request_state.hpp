// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/collectives/request.hpp>

#include "collectives/engine.hpp"

#include <memory>

namespace lockstep {

struct Request::State {
  std::shared_ptr<detail::Engine> engine;
  std::shared_ptr<detail::Operation> operation;
};

}  // namespace lockstep
