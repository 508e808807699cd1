// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What happens in one simulated job: its ranks, nodes and operations, and the faults of its ranks. All of it follows
// from a seed, within limits.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace lockstep::simulation {

/// Random numbers that are the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// From 0 to `count` - 1.
  [[nodiscard]] std::uint64_t below(std::uint64_t count) { return engine_() % count; }
  [[nodiscard]] int between(int least, int most) {
    return least + static_cast<int>(below(static_cast<std::uint64_t>(most - least + 1)));
  }
  /// True in one of `count` cases.
  [[nodiscard]] bool one_in(std::uint64_t count) { return below(count) == 0; }

 private:
  std::mt19937_64 engine_;
};

enum class Kind : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  all_gather,
  gather,
  broadcast,
  barrier,
  scatter,
  all_to_all,
  messages  ///< each rank sends number_of_messages() to the rank that partners() gives
};

/// What a rank does for an operation.
enum class Way : std::uint8_t {
  call,
  run_plan,   ///< runs a prepared all_reduce twice
  duplicate,  ///< makes a communicator of all ranks, and an all_reduce on it, and destroys it
  split,      ///< the same with two groups of ranks
  step        ///< a step of a strategy over the communicator, which all_reduces its replicas' values
};

struct Operation {
  Kind kind = Kind::barrier;
  int count = 0;  ///< elements of one input
  int root = 0;
  bool is_asynchronous = false;  ///< a request, for which the rank waits at once
  Way way = Way::call;
  bool is_left_open = false;  ///< a request, for which the rank waits with the next operation that is not left open
  Kind common_kind = Kind::barrier;  ///< before another call took its place
  bool has_many = false;             ///< 8, 16 or 24 messages; a ring has room for 16
  [[nodiscard]] bool is_common() const noexcept { return way == Way::call && kind == common_kind; }
  [[nodiscard]] bool makes_communicator() const noexcept { return way == Way::duplicate || way == Way::split; }
};

[[nodiscard]] constexpr int number_of_messages(const Operation& operation) {
  return (1 + operation.count % 3) * (operation.has_many ? 8 : 1);
}

enum class FaultKind : std::uint8_t {
  dies,         ///< as `stops`, for ever, and the ranks of its node learn that its process has ended
  stops,        ///< gets no turn after some turns from the begin of the operation on, until all other ranks have ended
  is_late,      ///< sleeps before the operation
  aborts,       ///< calls abort in place of the operation
  leaves,       ///< destroys its communicator before the operation
  calls_other,  ///< makes another call in place of the operation
  lacks_memory  ///< the n-th allocation of the library from the begin of the operation on fails, n: `turns`
};

struct Fault {
  FaultKind kind = FaultKind::stops;
  FaultKind common_kind = FaultKind::stops;  ///< before `lacks_memory` took its place
  int rank = 0;
  int operation = 0;
  std::uint64_t turns = 0;  ///< of FaultKind::stops, dies and lacks_memory
  bool is_in_work = false;  ///< FaultKind::stops and dies happen in a turn of work on the memory of other ranks
  bool has_pause = false;   ///< FaultKind::aborts, leaves and calls_other come after a pause
  std::chrono::milliseconds delay = {};  ///< of FaultKind::is_late and of a pause; see lateness()
  Operation other = {};                  ///< of FaultKind::calls_other
};

/// How long messages are under way.
struct Delays {
  std::chrono::microseconds most{0};       ///< of most messages
  std::uint64_t slow_one_in = 0;           ///< 0: none is slow
  std::chrono::microseconds most_slow{0};  ///< of slow messages
  /// The longest time that a message may take.
  [[nodiscard]] std::chrono::milliseconds slowest() const;
};

struct Scenario {
  std::uint64_t seed = 0;
  std::vector<int> node_leaders;  ///< by rank: the lowest rank of its node
  std::vector<int> replicas;      ///< by rank
  std::vector<Operation> operations;
  std::vector<Fault> faults;
  /// A thread that reads or writes a word of the shared blocks gives others a turn in one of so many cases; 0: never.
  std::uint64_t preempts_one_in = 0;
  std::chrono::milliseconds fail_after{2000};
  std::chrono::milliseconds warn_after{20000};
  Delays delays;
  /// A load of an atomic returns an older value in one of so many cases, where the code reports its accesses; 0: never.
  std::uint64_t stale_one_in = 0;
  int ranks_of_domain = 0;    ///< so many ranks of a node share a last-level cache, two caches are a socket; 0: all do
  bool has_mappings = false;  ///< the ranks of a node see shared memory as processes do; else as threads of one process
  int processors = few_processors;  ///< that the threads of the job see: whether replicas share work depends on it
  static constexpr int few_processors = 2;
  std::size_t turn_bytes = 0;  ///< at most so many bytes of a turn of work on the memory of other ranks; 0: as usual
  bool hides_memory = false;   ///< the ranks of a node do not access each other's tensors
  /// As over TCP: transfers by number, and each rank learns that a rank of another node has died from the end of its
  /// connection.
  bool has_connections = false;
  /// A rank that gets an error, or has aborted, calls recover at once, and goes on; else when all others have ended.
  bool recovers_at_once = false;
  bool leaves_after_failure = false;  ///< a rank that gets an error destroys its communicator at once
  bool is_late_beyond_heartbeats =
      true;  ///< else a late rank comes before the others have sent heartbeats, or after the deadline
  /// The communicator is made by an exchange of the ranks, as that of a program is, and stops, deaths and lateness of
  /// the first operation begin there; else it is made without one.
  bool is_created_together = false;
  bool begins_with_failure = false;  ///< some barriers, an abort of rank 0, and `recover` come before the operations

  [[nodiscard]] int ranks() const noexcept { return static_cast<int>(replicas.size()); }
  [[nodiscard]] int nodes() const;
  /// The first operation that may not be complete when a rank comes to `operation`.
  [[nodiscard]] int first_open(int operation) const;
};

struct Limits {
  int least_ranks = 2;
  int most_ranks = 6;
  int most_nodes = 3;
  int most_operations = 20;
  int most_faults = 2;
};

[[nodiscard]] Scenario scenario_of(std::uint64_t seed, const Limits& limits);

/// The rank to which a rank sends messages in an operation of Kind::messages, and the one whose messages it receives.
struct Partners {
  int target;
  int source;
};
[[nodiscard]] Partners partners(const Operation& operation, int rank, int ranks);

/// The ranks of the communicators that an operation makes, in their order.
[[nodiscard]] std::vector<std::vector<int>> parts(const Scenario& scenario, const Operation& operation);
/// The name of such a communicator in error texts; `number` is that of the operation.
[[nodiscard]] std::string name_of_part(int number, std::size_t part);

/// The text of an abort of a rank.
[[nodiscard]] std::string text_of_abort(int rank);
/// Whether the fault begins when its rank begins to make the communicator.
[[nodiscard]] bool begins_in_creation(const Scenario& scenario, const Fault& fault);
/// In which turn of its work the rank of a fault that is_in_work stops.
[[nodiscard]] int turn_of_work(const Fault& fault);
/// How late the rank of a fault of kind is_late is: before the others send their probes, or later than the deadline. A
/// pause is always so short that the rank comes before the probes.
[[nodiscard]] std::chrono::milliseconds lateness(const Scenario& scenario, const Fault& fault);

/// A line for each part of the scenario.
[[nodiscard]] std::string describe(const Scenario& scenario);
[[nodiscard]] std::string describe(const Operation& operation);
[[nodiscard]] std::string describe(const Scenario& scenario, const Fault& fault);

}  // namespace lockstep::simulation
