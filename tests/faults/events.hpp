// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The events of the matrix that happen to a process, as opposed to the calls that it makes.

#pragma once

#include "report.hpp"
#include "settings.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

namespace faults {

/// The exception of the events `throw` and `caught`.
struct Boom : std::runtime_error {
  Boom() : std::runtime_error("boom") {}
};

/// What the culprit does after the event.
enum class Then : std::uint8_t {
  go_on,  ///< continues with the call
  leave,  ///< leaves the scope of its communicator or strategy, and of its Environment
};

class Events {
 public:
  Events(const Settings& settings, const Report& report);
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  /// Whether the event happens to the process; the others are differences in what ranks call.
  [[nodiscard]] bool is_of_process() const;
  /// Whether the event can come from outside, while the rank is inside a call.
  [[nodiscard]] bool comes_from_outside() const;
  /// The event, on the culprit. Thread-safe; once per process.
  Then happen();
  /// The event after `delay`, from a thread; join it by letting the result go.
  [[nodiscard]] std::jthread happen_in(std::chrono::microseconds delay);
  /// What must be so before MPI is initialized: limits and variables.
  void prepare_process();
  /// Gives back memory, limits and files that the event has taken.
  void relieve();

 private:
  struct Taken;
  void ask_driver() const;
  void be_late() const;
  void take_arena();
  /// Fills the file system of the file `name`.
  void fill(const std::string& name);
  void limit(int resource, std::uint64_t value);

  const Settings& settings_;
  const Report& report_;
  std::unique_ptr<Taken> taken_;
};

}  // namespace faults
