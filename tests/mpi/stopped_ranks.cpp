// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Rank 1 is stopped (SIGSTOP) at a random moment of a large collective, and continues when the other ranks have their
// error, or their result, and have written to their memory. No rank gets a wrong result without an error, and no byte
// of a rank's memory changes after its call has ended. Then the same call on the same memory succeeds.
//
//   stopped_ranks [--seed N] [--ranks-per-node N] STOPS LEAST
//
// Makes calls until there are STOPS stops, LEAST of them in the work; at most 20 * STOPS calls. A stop is in the work
// if rank 1 was stopped while it had announced that it reads or writes memory of other ranks. Some stops come from rank
// 0 at a random time of the call, others from a timer of rank 1 at a random time of its work. With --ranks-per-node,
// MPI reports nodes of so many ranks. Prints the seed and the counts; exit code 1 if anything is wrong.

#include <lockstep/base/error.hpp>
#include <lockstep/cluster/environment.hpp>
#include <lockstep/device/arena.hpp>
#include <lockstep/device/memory_resource.hpp>
#include <lockstep/interop/mpi.hpp>

#include "collectives/engine/engine.hpp"
#include "collectives/make_communicator.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

int ranks_per_node = 0;  // 0: as they are

}  // namespace

/// Replaces MPI's function in this program.
extern "C" int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* part) {
  if (ranks_per_node == 0) return PMPI_Comm_split_type(comm, type, key, info, part);
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return PMPI_Comm_split(comm, rank / ranks_per_node, key, part);
}

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int stopped_rank = 1;
constexpr float mark = -7.0F;

enum class Kind : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  all_gather,
  gather,
  broadcast,
  scatter,
  all_to_all,
  all_gather_v,
  gather_v,
  scatter_v,
  all_to_all_v,
};
constexpr std::array names{"all_reduce", "reduce",     "reduce_scatter", "all_gather", "gather",    "broadcast",
                           "scatter",    "all_to_all", "all_gather_v",   "gather_v",   "scatter_v", "all_to_all_v"};

/// One call; the same on all ranks.
struct Choice {
  Kind kind;
  bool in_place;
  bool in_arena;
  int root;
  std::int64_t part;  ///< elements that one rank has of a tensor that is spread over ranks
  bool by_timer;      ///< rank 1 stops itself
  double moment;      ///< when rank 1 is stopped, as a share of the duration of the call or, by timer, of its turns

  [[nodiscard]] std::string text() const {
    return std::string(names[static_cast<std::size_t>(kind)]) + (in_place ? " in place" : "") +
           (in_arena ? ", arena" : ", heap") + ", root " + std::to_string(root) + ", " + std::to_string(part) +
           " elements, stopped at " + std::to_string(moment) + (by_timer ? " of the work" : "");
  }
};

/// Calls that use the memory of the node are drawn more often than those by messages.
Choice draw(std::mt19937& random, int ranks) {
  Choice choice{};
  const auto pick = [&](unsigned most) { return static_cast<int>(random() % most); };
  if (ranks_per_node != 0 && pick(10) < 7) {
    choice.kind = pick(3) == 0 ? Kind::all_reduce : static_cast<Kind>(pick(7));
  } else {
    choice.kind = static_cast<Kind>(pick(10) < 8 ? pick(6) : 6 + pick(6));
  }
  const bool may_be_in_place = choice.kind == Kind::all_reduce || choice.kind == Kind::reduce ||
                               choice.kind == Kind::broadcast || choice.kind == Kind::all_to_all;
  choice.in_place = may_be_in_place && pick(2) == 0;
  choice.in_arena = pick(4) != 0;
  choice.root = pick(static_cast<unsigned>(ranks));
  const bool is_whole =
      choice.kind == Kind::all_reduce || choice.kind == Kind::reduce || choice.kind == Kind::broadcast;
  choice.part = (2 + pick(4)) * (std::int64_t{1} << 20) / (is_whole ? 1 : ranks) + pick(100);
  const bool is_in_node = ranks_per_node == 0 ? choice.kind < Kind::scatter : choice.kind <= Kind::scatter;
  choice.by_timer = is_in_node && pick(4) != 0;
  choice.moment = std::uniform_real_distribution<double>(0, choice.by_timer ? 1.0 : 1.1)(random);
  return choice;
}

/// Some floats from the arena or the heap.
class Block {
 public:
  Block(bool in_arena, std::int64_t count)
      : resource_(in_arena ? arena_memory_resource() : heap_memory_resource()),
        bytes_(static_cast<std::size_t>(count) * sizeof(float)),
        values_(static_cast<float*>(resource_->allocate(bytes_)), static_cast<std::size_t>(count)) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { resource_->deallocate(values_.data(), bytes_); }
  [[nodiscard]] std::span<float> values() const { return values_; }

 private:
  std::shared_ptr<MemoryResource> resource_;
  std::size_t bytes_;
  std::span<float> values_;
};

/// The buffers of one call on this rank, and the values that belong there.
class Trial {
 public:
  Trial(const Choice& choice, const Communicator& comm)
      : choice_(choice), ranks_(comm.size()), rank_(comm.rank()), is_root_(rank_ == choice.root) {
    const auto [has_input, has_output] = places();
    if (has_input) input_.emplace(choice.in_arena, input_count());
    if (has_output && !(choice.in_place && has_input)) output_.emplace(choice.in_arena, output_count());
  }

  void fill() {
    if (output_) std::fill(output_->values().begin(), output_->values().end(), -1.0F);
    if (!input_) return;
    const auto values = input_->values();
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = value(rank_, static_cast<std::int64_t>(k));
  }

  void call(const Communicator& comm, const ReduceOptions& how) {
    std::optional<ConstTensorView> input;
    std::optional<TensorView> output;
    if (input_) input.emplace(input_->values().data(), DType::f32, Shape{input_count()});
    if (places().second) output = TensorView{results().data(), DType::f32, Shape{output_count()}, Device{}};
    const Item item{std::span(input ? &*input : nullptr, input ? 1 : 0),
                    std::span(output ? &*output : nullptr, output ? 1 : 0)};
    const std::span<const Item> items(&item, 1);
    switch (choice_.kind) {
      case Kind::all_reduce: return comm.all_reduce(items, ReduceOp::sum, how);
      case Kind::reduce: return comm.reduce(items, ReduceOp::sum, choice_.root, how);
      case Kind::reduce_scatter: return comm.reduce_scatter(items, ReduceOp::sum, how);
      case Kind::all_gather: return comm.all_gather(items, how);
      case Kind::gather: return comm.gather(items, choice_.root, how);
      case Kind::broadcast: return comm.broadcast(items, choice_.root, how);
      case Kind::scatter: return comm.scatter(items, choice_.root, how);
      case Kind::all_to_all: return comm.all_to_all(items, how);
      case Kind::all_gather_v: return comm.all_gather_v(items, rows(0, 0), how);
      case Kind::gather_v: return comm.gather_v(items, rows(0, 0), choice_.root, how);
      case Kind::scatter_v: return comm.scatter_v(items, rows(0, 0), choice_.root, how);
      case Kind::all_to_all_v: return comm.all_to_all_v(items, rows(rank_, 1), rows(rank_, 1), how);
    }
  }

  /// The number of wrong results.
  [[nodiscard]] std::int64_t wrong() const {
    if (!places().second) return 0;
    const auto values = results();
    std::int64_t wrong = 0;
    std::int64_t k = 0;
    // the result is parts one after the other, each of consecutive elements of one rank's input or of the sum
    for (int source = 0; source < (has_parts() ? ranks_ : 1); ++source) {
      const std::int64_t count = has_parts() ? length(source, rank_) : output_count();
      const std::int64_t begin = first_element(source);
      for (std::int64_t i = 0; i < count; ++i, ++k)
        wrong += values[static_cast<std::size_t>(k)] == expected(source, begin + i) ? 0 : 1;
    }
    return wrong;
  }

  void set_mark() {
    for (Block* const block : blocks()) std::fill(block->values().begin(), block->values().end(), mark);
  }
  /// The number of elements that changed since `set_mark`.
  [[nodiscard]] std::int64_t changed() {
    std::int64_t changed = 0;
    for (Block* const block : blocks())
      changed += std::count_if(block->values().begin(), block->values().end(), [](float it) { return it != mark; });
    return changed;
  }

  /// Memory of this rank that other ranks write to; empty if there is none.
  [[nodiscard]] std::span<float> written_by_others() const {
    const bool is_written = choice_.kind == Kind::all_reduce || (choice_.kind == Kind::reduce && is_root_);
    return is_written && choice_.in_arena ? results() : std::span<float>();
  }

 private:
  [[nodiscard]] std::pair<bool, bool> places() const {
    switch (choice_.kind) {
      case Kind::reduce:
      case Kind::gather:
      case Kind::gather_v: return {true, is_root_};
      case Kind::broadcast:
      case Kind::scatter:
      case Kind::scatter_v: return {is_root_, true};
      default: return {true, true};
    }
  }
  [[nodiscard]] bool has_parts() const {
    return choice_.kind == Kind::all_gather || choice_.kind == Kind::all_gather_v || choice_.kind == Kind::gather ||
           choice_.kind == Kind::gather_v || choice_.kind == Kind::all_to_all || choice_.kind == Kind::all_to_all_v;
  }
  [[nodiscard]] bool is_uneven() const { return choice_.kind >= Kind::all_gather_v; }
  /// Elements from `source` for `target`.
  [[nodiscard]] std::int64_t length(int source, int target) const {
    if (!is_uneven()) return choice_.part;
    if (choice_.kind == Kind::all_to_all_v) return choice_.part + 3L * (source + target);
    return choice_.part + 5L * (choice_.kind == Kind::scatter_v ? target : source);
  }
  /// The lengths by rank: of the parts of `rank` and each other one (`with_rank`), or of all parts.
  [[nodiscard]] std::vector<std::int64_t> rows(int rank, int with_rank) const {
    std::vector<std::int64_t> rows;
    for (int other = 0; other < ranks_; ++other) rows.push_back(length(with_rank == 1 ? rank : other, other));
    return rows;
  }
  [[nodiscard]] std::int64_t sum_of_lengths(int source, int targets) const {
    std::int64_t sum = 0;
    for (int target = 0; target < targets; ++target) sum += length(source, target);
    return sum;
  }
  [[nodiscard]] std::int64_t input_count() const {
    switch (choice_.kind) {
      case Kind::reduce_scatter:
      case Kind::scatter:
      case Kind::scatter_v:
      case Kind::all_to_all:
      case Kind::all_to_all_v: return sum_of_lengths(rank_, ranks_);
      default: return length(rank_, rank_);
    }
  }
  [[nodiscard]] std::int64_t output_count() const {
    if (!has_parts()) return length(rank_, rank_);
    std::int64_t sum = 0;
    for (int source = 0; source < ranks_; ++source) sum += length(source, rank_);
    return sum;
  }
  /// The element of `source`'s input at which the part for this rank begins.
  [[nodiscard]] std::int64_t first_element(int source) const {
    switch (choice_.kind) {
      case Kind::reduce_scatter:
      case Kind::scatter:
      case Kind::scatter_v:
      case Kind::all_to_all:
      case Kind::all_to_all_v: return sum_of_lengths(source, rank_);
      default: return 0;
    }
  }
  /// Exact in every sum of up to 16 ranks.
  static float value(int rank, std::int64_t k) { return static_cast<float>(k % 4093 + 10'000 * rank); }
  [[nodiscard]] float expected(int source, std::int64_t k) const {
    switch (choice_.kind) {
      case Kind::all_reduce:
      case Kind::reduce:
      case Kind::reduce_scatter: return static_cast<float>(ranks_ * (k % 4093) + 5000 * ranks_ * (ranks_ - 1));
      case Kind::broadcast:
      case Kind::scatter:
      case Kind::scatter_v: return value(choice_.root, k);
      default: return value(source, k);
    }
  }

  [[nodiscard]] std::span<float> results() const { return output_ ? output_->values() : input_->values(); }
  [[nodiscard]] std::vector<Block*> blocks() {
    std::vector<Block*> blocks;
    if (input_) blocks.push_back(&*input_);
    if (output_) blocks.push_back(&*output_);
    return blocks;
  }

  Choice choice_;
  int ranks_;
  int rank_;
  bool is_root_;
  std::optional<Block> input_;
  std::optional<Block> output_;
};

/// Counts the turns of work of this process in a call, or stops the process in one of them.
class WorkClock {
 public:
  WorkClock() {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGSTOP;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) std::abort();
  }
  WorkClock(const WorkClock&) = delete;
  WorkClock& operator=(const WorkClock&) = delete;
  ~WorkClock() { timer_delete(timer_); }

  /// A call begins, in which the process is to stop after so many turns, the last of them in part.
  void start(std::optional<double> stop_after) {
    stop_after_ = stop_after;
    turns_ = 0;
  }
  void note_turn() {
    const double left = stop_after_ ? *stop_after_ - turns_ : -1;
    if (left >= 0 && left < 1) set_timer(1ns + std::chrono::duration_cast<std::chrono::nanoseconds>(left * 300us));
    ++turns_;
  }
  /// The call has ended; returns the number of its turns.
  int stop() {
    set_timer(0ns);
    return turns_;
  }

 private:
  void set_timer(std::chrono::nanoseconds after) {
    const itimerspec time{{}, {after.count() / 1'000'000'000, after.count() % 1'000'000'000}};
    if (timer_settime(timer_, 0, &time, nullptr) != 0) std::abort();
  }

  timer_t timer_{};
  std::optional<double> stop_after_;
  int turns_ = 0;
};
WorkClock* work_clock = nullptr;
constexpr detail::TestHooks hooks{.at_turn = [] { work_clock->note_turn(); }};

/// What a call ended with; sent as bytes.
struct Outcome {
  bool has_failed = false;
  std::array<char, 1000> text{};
};

struct Counts {
  int calls = 0;
  int stops = 0;
  int in_work = 0;
  int failed = 0;
  int unshared = 0;
};

class Runner {
 public:
  Runner(const Environment& environment, unsigned seed) : random_(seed), rank_(environment.rank()) {
    options_.warn_after = 50s;
    options_.fail_after = 60s;
    work_clock = &clock_;
    make_communicator();
    MPI_Comm_split(MPI_COMM_WORLD, rank_ == stopped_rank ? 1 : 0, rank_, &awake_);
    auto pid = static_cast<int>(getpid());
    MPI_Bcast(&pid, 1, MPI_INT, stopped_rank, MPI_COMM_WORLD);
    stopped_pid_ = pid;
  }

  /// One stop; the same verdict on all ranks.
  void stop_once() {
    const Choice choice = draw(random_, comm_->size());
    Trial trial(choice, *comm_);
    const Clock::duration duration = undisturbed(choice, trial);
    trial.fill();
    barrier();
    has_returned_ = false;
    std::thread stopper;
    if (rank_ == 0) stopper = std::thread([&] { stop(choice, duration); });
    if (rank_ == stopped_rank && choice.by_timer) stop_after_ = choice.moment * turns_;
    const Outcome outcome = call(trial, {.fail_after = 1000ms});
    has_returned_ = true;
    if (!outcome.has_failed) check(trial.wrong() == 0, choice, "wrong results, and no error");
    trial.set_mark();
    if (rank_ != stopped_rank) {
      if (rank_ == 0) stopper.join();
      MPI_Barrier(awake_);
    }
    wake();
    check(trial.changed() == 0, choice, "memory was changed after the call");
    compare(choice, outcome);
    note(choice, trial, outcome);
    recover();
    static_cast<void>(undisturbed(choice, trial));
  }

  [[nodiscard]] const Counts& counts() const { return counts_; }
  /// The same on all ranks.
  [[nodiscard]] bool is_right() const {
    int wrong = wrong_;
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return wrong == 0;
  }

 private:
  static void barrier() { MPI_Barrier(MPI_COMM_WORLD); }

  void check(bool is_right, const Choice& choice, const std::string& what) {
    if (is_right) return;
    ++wrong_;
    std::printf("rank %d, call %d: %s: %s\n", rank_, counts_.calls, choice.text().c_str(), what.c_str());
    std::fflush(stdout);
  }

  /// Until rank 1 is back from its call.
  void wake() {
    MPI_Request all_here = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &all_here);
    for (int is_over = 0; is_over == 0; std::this_thread::sleep_for(1ms)) {
      if (rank_ == 0) kill(stopped_pid_, SIGCONT);
      MPI_Test(&all_here, &is_over, MPI_STATUS_IGNORE);
    }
  }

  Outcome call(Trial& trial, const ReduceOptions& how) {
    Outcome outcome;
    clock_.start(std::exchange(stop_after_, std::nullopt));
    try {
      trial.call(*comm_, how);
    } catch (const Error& error) {
      outcome.has_failed = true;
      std::strncpy(outcome.text.data(), error.text().c_str(), outcome.text.size() - 1);
    }
    turns_ = clock_.stop();
    return outcome;
  }

  /// Runs the call without a stop; returns its duration.
  Clock::duration undisturbed(const Choice& choice, Trial& trial) {
    trial.fill();
    barrier();
    const auto begin = Clock::now();
    const Outcome outcome = call(trial, {.fail_after = 60s});
    const Clock::duration duration = Clock::now() - begin;
    check(!outcome.has_failed, choice, outcome.text.data());
    check(outcome.has_failed || trial.wrong() == 0, choice, "wrong results without a stop");
    return duration;
  }

  [[nodiscard]] detail::NodeGroup* group() {
    detail::Transport& transport = CommunicatorAccess::engine(*comm_).transport();
    return transport.node_group() != nullptr ? transport.node_group() : transport.local_group();
  }

  [[nodiscard]] bool is_in_work() {
    detail::NodeGroup* const node = group();
    return node != nullptr && node->control_block(stopped_rank).working.value.load() != 0;
  }

  /// On a thread of rank 0: stops rank 1, or waits until its timer has. `duration` is that of the call without a stop.
  void stop(const Choice& choice, Clock::duration duration) {
    if (!choice.by_timer) {
      std::this_thread::sleep_for(std::chrono::duration_cast<Clock::duration>(duration * choice.moment));
      kill(stopped_pid_, SIGSTOP);
    }
    for (int left = 300; left > 0 && !is_stopped(); left -= has_returned_ ? 1 : 0) std::this_thread::sleep_for(1ms);
    has_stopped_ = is_stopped();
    in_work_ = has_stopped_ && is_in_work();
  }

  [[nodiscard]] bool is_stopped() const {
    std::ifstream file("/proc/" + std::to_string(stopped_pid_) + "/stat");
    std::string text;
    std::getline(file, text);
    const auto end = text.rfind(')');
    return end != std::string::npos && text.size() > end + 2 && text[end + 2] == 'T';
  }

  /// A rank that fails has the error of a rank that was not stopped.
  void compare(const Choice& choice, const Outcome& own) {
    std::vector<Outcome> all(static_cast<std::size_t>(comm_->size()));
    MPI_Allgather(&own, sizeof(Outcome), MPI_BYTE, all.data(), sizeof(Outcome), MPI_BYTE, MPI_COMM_WORLD);
    if (rank_ != stopped_rank || !own.has_failed) return;
    const bool is_known = std::any_of(all.begin(), all.end(), [&](const Outcome& other) {
      return &other - all.data() != stopped_rank && other.has_failed && other.text == own.text;
    });
    check(is_known, choice, std::string("has an error that no other rank has: ") + own.text.data());
  }

  void note(const Choice& choice, const Trial& trial, const Outcome& outcome) {
    std::array<int, 2> stopped{rank_ == 0 && has_stopped_ ? 1 : 0, rank_ == 0 && in_work_ ? 1 : 0};
    int failed = outcome.has_failed ? 1 : 0;
    MPI_Bcast(stopped.data(), 2, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    ++counts_.calls;
    counts_.stops += stopped[0];
    counts_.in_work += stopped[1];
    counts_.failed += failed;
    const auto written = trial.written_by_others();
    if (rank_ != 0 || !in_work_ || !outcome.has_failed || written.empty()) return;
    const bool is_shared = group()->address_of(written.data(), written.size_bytes()) != detail::NodeAddress::none;
    check(!is_shared, choice, "rank 1 was stopped while it wrote to memory that is still shared");
    counts_.unshared += is_shared ? 0 : 1;
  }

  /// Until the communicator works, or a new one if a message was lost.
  void recover() {
    int is_lost = 0;
    for (int tries = 0; is_lost == 0; ++tries) {
      try {
        static_cast<void>(comm_->recover());
        comm_->barrier({.fail_after = 60s});
        break;
      } catch (const Error& error) {
        is_lost = tries == 20 || error.text().find("lost since") != std::string::npos ? 1 : 0;
      }
    }
    MPI_Allreduce(MPI_IN_PLACE, &is_lost, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (is_lost != 0) make_communicator();
  }

  void make_communicator() {
    comm_.emplace(communicator_from(MPI_COMM_WORLD, options_));
    CommunicatorAccess::set_test_hooks(*comm_, &hooks);
  }

  std::mt19937 random_;
  int rank_;
  CommunicatorOptions options_;
  std::optional<Communicator> comm_;
  MPI_Comm awake_ = MPI_COMM_NULL;  // all ranks but the one that is stopped
  pid_t stopped_pid_ = 0;
  std::atomic<bool> has_returned_{false};
  bool has_stopped_ = false;
  bool in_work_ = false;
  WorkClock clock_;
  int turns_ = 0;                     // of the last call
  std::optional<double> stop_after_;  // in the next call
  Counts counts_;
  int wrong_ = 0;
};

int run(int argc, char** argv) {
  unsigned seed = std::random_device{}();
  std::vector<int> numbers;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--seed" && i + 1 < argc) {
      seed = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else if (word == "--ranks-per-node" && i + 1 < argc) {
      ranks_per_node = std::atoi(argv[++i]);
    } else {
      numbers.push_back(std::atoi(argv[i]));
    }
  }
  const Environment environment(argc, argv);
  if (numbers.size() != 2 || environment.size() < 2) {
    std::fputs("usage: mpirun -n RANKS stopped_ranks [--seed N] [--ranks-per-node N] STOPS LEAST\n", stderr);
    return 2;
  }
  MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
  if (environment.rank() == 0) {
    std::printf("seed %u\n", seed);
    std::fflush(stdout);
  }
  Runner runner(environment, seed);
  const auto& [calls, stops, in_work, failed, unshared] = runner.counts();
  const int most_calls = std::max(20 * numbers[0], 200);  // about half of the stops are in the work
  while ((stops < numbers[0] || in_work < numbers[1]) && calls < most_calls) runner.stop_once();
  const bool is_right = runner.is_right();
  const bool are_enough = stops >= numbers[0] && in_work >= numbers[1];
  if (environment.rank() == 0) {
    std::printf("%d calls, %d stops, %d of them in the work; %d calls failed, %d outputs left shared memory%s\n", calls,
                stops, in_work, failed, unshared, are_enough ? "" : "; these are too few stops");
    std::fflush(stdout);
  }
  return is_right && are_enough ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::test

int main(int argc, char** argv) { return lockstep::test::run(argc, argv); }
