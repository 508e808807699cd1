// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/collectives/request.hpp>

#include "collectives/engine.hpp"

#include <memory>
#include <utility>

namespace lockstep {

struct Request::State {
  State(std::shared_ptr<detail::Engine> with, std::shared_ptr<detail::Operation> acquired)
      : engine(std::move(with)), use(std::move(acquired)) {}

  std::shared_ptr<detail::Engine> engine;
  detail::OperationUse use;
};

}  // namespace lockstep
