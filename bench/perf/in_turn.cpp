// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/in_turn.hpp"

#include <utility>

namespace perf {

InTurn::InTurn(std::vector<std::unique_ptr<Implementation>> calls) : calls_(std::move(calls)) {}

void InTurn::write(std::int64_t call) {
  for (std::size_t i = 0; i < calls_.size(); ++i) calls_[i]->write(number(call, i));
}

void InTurn::run() {
  for (const auto& call : calls_) call->run();
}

std::int64_t InTurn::count_wrong(std::int64_t call) const {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < calls_.size(); ++i) wrong += calls_[i]->count_wrong(number(call, i));
  return wrong;
}

void InTurn::touch_outputs() const {
  for (const auto& call : calls_) call->touch_outputs();
}

std::optional<double> InTurn::posted_seconds() const {
  std::optional<double> sum;
  for (const auto& call : calls_) {
    if (const auto posted = call->posted_seconds()) sum = sum.value_or(0) + *posted;
  }
  return sum;
}

std::int64_t InTurn::number(std::int64_t call, std::size_t index) const {
  const auto calls = static_cast<std::int64_t>(calls_.size());
  return call * calls + static_cast<std::int64_t>(index);
}

}  // namespace perf
