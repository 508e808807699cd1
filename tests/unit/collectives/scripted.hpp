// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The engine alone, with operations that do what a test says.

#pragma once

#include "collectives/engine/engine.hpp"
#include "transport/loopback/loopback_transport.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// An operation whose steps a test writes.
class Scripted final : public Operation {
 public:
  struct Script {
    std::function<void()> arrive = [] {};
    std::function<void()> start = [] {};
    std::function<bool()> advance = [] { return true; };
    std::function<DataProgress()> progress = [] { return DataProgress(); };
    std::vector<int> awaited = {};
  };

  explicit Scripted(Script script)
      : Operation(make_descriptor(Call::barrier(), Order::canonical, {}, "")), script_(std::move(script)) {}

  void arrive(std::uint64_t, Arrival&) override { script_.arrive(); }
  void start(Transport&, Workspace&) override { script_.start(); }
  bool advance(Transport&, Workspace&) override { return script_.advance(); }
  DataProgress progress(const Transport&) const noexcept override { return script_.progress(); }
  std::vector<int> awaited_ranks() const override { return script_.awaited; }
  bool abandon(Transport&) noexcept override { return false; }
  bool survives_faults() const noexcept override { return true; }

 private:
  Script script_;
};

inline std::shared_ptr<Operation> scripted(Scripted::Script script = {}) {
  auto operation = std::make_shared<Scripted>(std::move(script));
  static_cast<void>(operation->try_acquire());
  return operation;
}

inline std::shared_ptr<Operation> recovery() {
  auto operation = scripted();
  operation->set_recovery();
  return operation;
}

struct EngineLimits {
  int fail_ms = 1000;
  int total_ms = 0;
  std::uint64_t most_epochs = lockstep::detail::most_epochs;
};

inline std::vector<std::unique_ptr<Engine>> engines(int ranks, EngineLimits limits) {
  std::vector<std::unique_ptr<Engine>> made;
  for (auto& transport : make_loopback_transports(ranks, true)) {
    EngineOptions options;
    options.warn_after = std::chrono::milliseconds(limits.fail_ms);
    options.fail_after = std::chrono::milliseconds(limits.fail_ms);
    options.fail_after_total = std::chrono::milliseconds(limits.total_ms);
    options.name = "test";
    options.most_epochs = limits.most_epochs;
    made.push_back(std::make_unique<Engine>(std::move(transport), std::move(options)));
  }
  return made;
}

}  // namespace lockstep::detail
