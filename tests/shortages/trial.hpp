// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One trial: the ranks of a job in virtual time make a call, while a resource of rank 0 runs out; and what every rank
// must see of it.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include "shortages/resources.hpp"
#include "support/function_ref.hpp"
#include "transport/transport.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::shortages {

/// What a call of one rank has ended with.
struct Outcome {
  std::string kind = "not called";  ///< "passed", "bad_alloc", the code of an Error, or the type of another exception
  std::string text;
  int rank = -1;  ///< of the Error
  std::chrono::nanoseconds took{};
};

/// What the body of a row sees. One object for each rank.
class Rank {
 public:
  Rank(std::unique_ptr<detail::Transport> transport, Kind kind, std::optional<long> k,
       const std::filesystem::path& directory);

  [[nodiscard]] int number() const noexcept { return number_; }
  /// The communicator of all ranks; made by the first call.
  [[nodiscard]] Communicator& communicator();
  /// For a body that makes the communicator itself.
  [[nodiscard]] std::unique_ptr<detail::Transport> take_transport() { return std::move(transport_); }
  /// An empty folder, the same on all ranks.
  [[nodiscard]] const std::filesystem::path& directory() const noexcept { return directory_; }

  /// Makes the call under test. Then, with all resources, the ranks recover by `communicator`, and make the call again.
  /// All ranks call this function once.
  void tries(test::FunctionRef<void()> call, const Communicator& communicator);
  void tries(test::FunctionRef<void()> call) { tries(call, communicator()); }
  /// Makes the call under test, which needs no communicator, and makes it again with all resources.
  void tries_alone(test::FunctionRef<void()> call);
  /// Makes the call under test, which cannot be made again.
  void tries_once(test::FunctionRef<void()> call);
  /// A fact that the body has found to be wrong after the call.
  void complain(const std::string& text) { complaints_.push_back(text); }

  [[nodiscard]] const Outcome& outcome() const noexcept { return outcome_; }
  [[nodiscard]] const std::vector<std::string>& complaints() const noexcept { return complaints_; }

 private:
  void recover(const Communicator& communicator);
  void try_again(test::FunctionRef<void()> call);

  int number_;
  std::unique_ptr<detail::Transport> transport_;
  std::optional<Communicator> communicator_;
  Kind kind_;
  std::optional<long> k_;
  std::filesystem::path directory_;
  Outcome outcome_;
  std::vector<std::string> complaints_;
};

/// A public call.
struct Row {
  std::string name;
  std::vector<int> leaders;  ///< by rank, the lowest rank of its node
  void (*body)(Rank&);
};

struct Trial {
  bool has_failed = false;              ///< the call came to call number k
  std::array<long, kinds> counted{};    ///< of the call
  std::vector<Outcome> outcomes;        ///< by rank
  std::vector<std::string> complaints;  ///< what is wrong; empty if the trial is green
  Held more;                            ///< what the process holds more than before
};

/// Runs the row in a run of its own; without `k` nothing fails.
[[nodiscard]] Trial run_trial(const Row& row, Kind kind, std::optional<long> k);

[[nodiscard]] std::vector<Row> communicator_rows();
[[nodiscard]] std::vector<Row> strategy_rows();
[[nodiscard]] std::vector<Row> input_rows();
[[nodiscard]] std::vector<Row> checkpoint_rows();

}  // namespace lockstep::shortages
