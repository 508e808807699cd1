// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A part of a program that uses lockstep by itself: the program's main, or a library.

#pragma once

#include <lockstep/cluster/environment.hpp>
#include <lockstep/interop/mpi.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace parts {

class Part {
 public:
  explicit Part(std::string name) : name_(std::move(name)) {}

  /// Makes one step; false: the step is unknown. Prints what the step shows on rank 0.
  bool step(char action) {
    switch (action) {
      case '+': create({}); break;
      case 'p': create({.delays_finalize = false}); break;
      case '7':
      case '9': create({.finalize_after = std::chrono::seconds(action - '0')}); break;
      case '-': environment_.reset(); break;
      case 's': sum({}); break;
      case 'l': sum(std::chrono::milliseconds(300)); break;
      case 'x': throw_through(); break;
      default: return false;
    }
    return true;
  }

 private:
  void create(const lockstep::EnvironmentOptions& options) {
    environment_.emplace(options,
                         std::source_location::current());  // otherwise the place would be in a standard header
  }
  /// Rank 1 keeps its communicator for as long as `lateness`.
  void sum(std::chrono::milliseconds lateness) {
    const lockstep::Communicator all = lockstep::world_communicator({.name = name_});
    std::array<double, 2> values{all.rank() + 1.0, 1.0};
    all.all_reduce(values, lockstep::ReduceOp::sum);
    if (all.rank() == 0) std::printf("%s: sum %g of %g ranks\n", name_.c_str(), values[0], values[1]);
    if (all.rank() == 1) std::this_thread::sleep_for(lateness);
  }
  /// An exception destroys an Environment of this part.
  static void throw_through() {
    try {
      const lockstep::Environment environment;
      throw std::runtime_error("caught");
    } catch (const std::runtime_error&) {}
  }

  std::string name_;
  std::optional<lockstep::Environment> environment_;
};

}  // namespace parts
