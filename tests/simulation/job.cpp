// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/job.hpp"

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/item.hpp>
#include <lockstep/core/tensor_view.hpp>

#include "collectives/make_communicator.hpp"
#include "races/races.hpp"
#include "simulation/node_memory.hpp"
#include "support/function_ref.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "virtual_time/virtual_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <utility>

namespace lockstep::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

const Scenario* running = nullptr;
std::array<bool, virtual_time::most_groups> stops_soon{};        ///< by group
std::array<int, virtual_time::most_groups> turns_before_stop{};  ///< by group: of work; 0: it does not stop in work

Random& random_of_thread() {
  thread_local Random random(virtual_time::seed_of_thread());
  return random;
}

/// Gives other threads a turn in one of so many cases; never if `count` is 0.
void preempt_one_in(std::uint64_t count) {
  if (count != 0 && random_of_thread().one_in(count)) virtual_time::preempt();
}

/// Before an access to a word of the shared blocks.
void at_word() { preempt_one_in(running->preempts_one_in); }

/// Whether the calling rank may stop and must not do so inside of work on the memory of other ranks: threads of one
/// process cannot take their memory away from it.
bool must_not_stop() { return !running->has_mappings && stops_soon[static_cast<std::size_t>(virtual_time::group())]; }

/// Inside of work on the memory of other ranks, which may take long where messages do.
void at_turn() {
  if (must_not_stop()) return;
  int& turns = turns_before_stop[static_cast<std::size_t>(virtual_time::group())];
  if (turns > 0 && --turns == 0) virtual_time::stop_group(virtual_time::group());
  at_word();
  const Delays& delays = running->delays;
  if (delays.slow_one_in == 0 || !random_of_thread().one_in(4 * delays.slow_one_in)) return;
  const auto most = static_cast<std::uint64_t>(delays.most_slow.count());
  std::this_thread::sleep_for(std::chrono::microseconds(random_of_thread().below(most)));
}

/// Called before each access to an atomic, in builds whose code reports them.
void at_atomic() {
  constexpr std::uint64_t accesses_of_a_word = 8;  // there are many more of them
  if (!must_not_stop()) preempt_one_in(running->preempts_one_in * accesses_of_a_word);
}

constexpr detail::TestHooks hooks{.at_flag = at_word, .at_turn = at_turn};

/// An element of the input of a replica. Sums are exact in f32.
float value_of(int operation, int replica, int element) {
  return static_cast<float>((operation * 7 + replica * 13 + element * 3) % 31 - 9);
}

/// The elements of a tensor.
class Values {
 public:
  /// In the memory of the calling rank that it shares; on the heap if `memories` is null.
  Values(NodeMemories* memories, int member, int count) : count_(static_cast<std::size_t>(count)) {
    const std::size_t bytes = count_ * sizeof(float);
    if (memories != nullptr) {
      std::byte* const block = memories->allocate(member, bytes);
      if (block == nullptr) std::abort();  // the job needs more than a simulated rank has
      data_ = {reinterpret_cast<float*>(block), [memories, block, bytes](float*) { memories->free(block, bytes); }};
    } else {
      data_ = {new float[count_], std::default_delete<float[]>()};
    }
  }
  [[nodiscard]] std::span<float> all() const noexcept { return {data_.get(), count_}; }
  void has_been_read() const { races::read(data_.get(), count_ * sizeof(float)); }
  void has_been_written() const { races::wrote(data_.get(), count_ * sizeof(float)); }
  void fill(float value) const {
    std::fill(all().begin(), all().end(), value);
    has_been_written();
  }

 private:
  std::shared_ptr<float> data_;
  std::size_t count_;
};

/// Where the tensors of a rank are.
struct Place {
  NodeMemories* memories = nullptr;  ///< null: on the heap
  int member = 0;                    ///< of its node
};

/// The tensors of one operation of one rank, and what they must be afterwards.
class Buffers {
 public:
  Buffers(const Operation& operation, int number, const ReplicaLayout& layout, int rank, Place place)
      : operation_(operation), number_(number), layout_(layout), rank_(rank), place_(place) {
    const int all = layout.replicas();
    const int local = layout.count(rank);
    const bool is_root = rank == operation.root;
    const int count = operation.count;
    switch (operation.kind) {
      case Kind::all_reduce: make(local, count, local, count); break;
      case Kind::reduce: make(local, count, is_root ? 1 : 0, count); break;
      case Kind::reduce_scatter: make(local, count * all, local, count); break;
      case Kind::all_gather: make(local, count, local, count * all); break;
      case Kind::gather: make(local, count, is_root ? 1 : 0, count * all); break;
      case Kind::broadcast: make(is_root ? 1 : 0, count, local, count); break;
      case Kind::barrier: break;
    }
  }

  [[nodiscard]] Item item() const { return {inputs_, outputs_}; }

  /// After a failed call: its caller may change the inputs at once, and no rank writes to the outputs any more.
  void end_by_failure() {
    for (const Values& values : values_) values.fill(-1e9F);
    for (const Values& result : results_) {
      result.has_been_read();
      left_.emplace_back(result.all().begin(), result.all().end());
    }
  }
  /// Whether the outputs are as they were after the failed call.
  [[nodiscard]] bool is_left_alone() const {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (!std::equal(left_[i].begin(), left_[i].end(), results_[i].all().begin())) return false;
    }
    return true;
  }

  /// Empty if all results are right.
  [[nodiscard]] std::string wrong() const {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      results_[i].has_been_read();
      const std::span<const float> result = results_[i].all();
      for (std::size_t k = 0; k < result.size(); ++k) {
        const float expected = expected_at(static_cast<int>(i), static_cast<int>(k));
        if (result[k] != expected)
          return fmt::format("element {} of output {} is {}, not {}", k, i, result[k], expected);
      }
    }
    return {};
  }

 private:
  /// Every fourth operation is on private memory, which other ranks cannot see.
  [[nodiscard]] Values make_values(int count) const {
    return {number_ % 4 == 3 ? nullptr : place_.memories, place_.member, count};
  }

  void make(int inputs, int input_count, int outputs, int output_count) {
    const int first = operation_.kind == Kind::broadcast ? 0 : layout_.first(rank_);
    for (int i = 0; i < inputs; ++i) {
      const std::span<float> values = values_.emplace_back(make_values(input_count)).all();
      for (int k = 0; k < input_count; ++k) values[static_cast<std::size_t>(k)] = value_of(number_, first + i, k);
      values_.back().has_been_written();
      inputs_.push_back({values.data(), DType::f32, Shape{input_count}, {}});
    }
    for (int i = 0; i < outputs; ++i) {
      const Values& values = results_.emplace_back(make_values(output_count));
      values.fill(-77.0F);
      outputs_.push_back({values.all().data(), DType::f32, Shape{output_count}, {}});
    }
  }

  [[nodiscard]] float sum_at(int element) const {
    float sum = 0;
    for (int replica = 0; replica < layout_.replicas(); ++replica) sum += value_of(number_, replica, element);
    return sum;
  }
  [[nodiscard]] float expected_at(int output, int element) const {
    switch (operation_.kind) {
      case Kind::all_reduce:
      case Kind::reduce: return sum_at(element);
      case Kind::reduce_scatter: return sum_at((layout_.first(rank_) + output) * operation_.count + element);
      case Kind::all_gather:
      case Kind::gather: return value_of(number_, element / operation_.count, element % operation_.count);
      case Kind::broadcast: return value_of(number_, 0, element);
      case Kind::barrier: break;
    }
    return 0;
  }

  Operation operation_;
  int number_;
  const ReplicaLayout& layout_;
  int rank_;
  Place place_;
  std::vector<Values> values_;
  std::vector<Values> results_;
  std::vector<std::vector<float>> left_;  // contents of the results after a failure
  std::vector<ConstTensorView> inputs_;
  std::vector<TensorView> outputs_;
};

Request start(const Communicator& comm, const Operation& operation, std::span<const Item> items) {
  switch (operation.kind) {
    case Kind::all_reduce: return comm.all_reduce_async(items, ReduceOp::sum);
    case Kind::reduce_scatter: return comm.reduce_scatter_async(items, ReduceOp::sum);
    case Kind::reduce: return comm.reduce_async(items, ReduceOp::sum, operation.root);
    case Kind::all_gather: return comm.all_gather_async(items);
    case Kind::gather: return comm.gather_async(items, operation.root);
    case Kind::broadcast: return comm.broadcast_async(items, operation.root);
    case Kind::barrier: break;
  }
  return comm.barrier_async();
}

/// Seeds of kept_seeds have been found with these.
bool may_be_asynchronous(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::broadcast || kind == Kind::barrier;
}

void call(const Communicator& comm, const Operation& operation, const Item& item) {
  const std::span<const Item> items(&item, 1);
  if (operation.is_asynchronous && may_be_asynchronous(operation.kind)) return start(comm, operation, items).wait();
  switch (operation.kind) {
    case Kind::all_reduce: return comm.all_reduce(items, ReduceOp::sum);
    case Kind::reduce: return comm.reduce(items, ReduceOp::sum, operation.root);
    case Kind::reduce_scatter: return comm.reduce_scatter(items, ReduceOp::sum);
    case Kind::all_gather: return comm.all_gather(items);
    case Kind::gather: return comm.gather(items, operation.root);
    case Kind::broadcast: return comm.broadcast(items, operation.root);
    case Kind::barrier: return comm.barrier();
  }
}

class Job {
 public:
  Job(const Scenario& scenario, bool trace)
      : scenario_(scenario), trace_(trace), delays_(scenario.seed), layout_(scenario.replicas) {
    report_.ranks.resize(static_cast<std::size_t>(scenario.ranks()));
    has_ended_.resize(report_.ranks.size());
    failed_.resize(report_.ranks.size());
    running = &scenario;
    stops_soon = {};
    turns_before_stop = {};
    for (int rank = 0; rank < scenario.ranks(); ++rank)
      stops_soon[static_cast<std::size_t>(group_of(rank))] = stops(rank);
  }

  Report run() {
    virtual_time::Options options;
    options.seed = scenario_.seed | 1;  // 0 would take turns in order
    options.longest = std::chrono::hours(1);
    // a rank that may have died in its work goes on with it when the simulation ends it
    const bool dies_in_work =
        scenario_.has_mappings && std::any_of(scenario_.faults.begin(), scenario_.faults.end(),
                                              [](const Fault& fault) { return fault.kind == FaultKind::dies; });
    virtual_time::VirtualRun virtual_run(options);
    const races::Detection detection({scenario_.seed, scenario_.stale_one_in, at_atomic, trace_});
    {
      detail::LoopbackHooks disturbances;
      disturbances.delay = [this](int, int) { return delay(); };
      disturbances.has_ended = [this](int observer, int rank) { return knows_of_end(observer, rank); };
      if (scenario_.has_mappings) {
        disturbances.make_groups = [this](int size, std::span<const detail::NodePlace> places) {
          return NodeMemories::groups(memories_.emplace_back(std::make_shared<NodeMemories>(size)), places);
        };
      }
      auto transports = detail::make_loopback_transports(scenario_.node_leaders, true, disturbances, places());
      std::vector<std::jthread> ranks;
      for (auto& transport : transports) ranks.emplace_back([this, &transport] { be_rank(std::move(transport)); });
      watch();
    }
    if (!dies_in_work) look_at_outputs();
    report_.duration = virtual_time::now();
    report_.races = detection.races();
    report_.accesses = detection.accesses();
    report_.stale_loads = detection.stale_loads();
    report_.history = virtual_run.history();
    report_.turns = virtual_run.turns();
    return std::move(report_);
  }

 private:
  [[nodiscard]] const Fault* fault_of(int rank) const {
    const auto is_of_rank = [rank](const Fault& fault) { return fault.rank == rank; };
    const auto found = std::find_if(scenario_.faults.begin(), scenario_.faults.end(), is_of_rank);
    return found == scenario_.faults.end() ? nullptr : &*found;
  }
  [[nodiscard]] bool dies(int rank) const {
    const Fault* const fault = fault_of(rank);
    return fault != nullptr && fault->kind == FaultKind::dies;
  }
  [[nodiscard]] bool stops(int rank) const {
    const Fault* const fault = fault_of(rank);
    return fault != nullptr && (fault->kind == FaultKind::stops || fault->kind == FaultKind::dies);
  }

  /// Where each rank runs.
  [[nodiscard]] std::vector<detail::NodePlace> places() const {
    std::vector<detail::NodePlace> places;
    for (int rank = 0; rank < scenario_.ranks() && scenario_.ranks_of_domain > 0; ++rank) {
      const int member = rank - scenario_.node_leaders[static_cast<std::size_t>(rank)];
      const int domain = member / scenario_.ranks_of_domain;
      places.push_back({domain / 2, domain});
    }
    return places;
  }

  [[nodiscard]] Place place_of(int rank) const {
    if (!scenario_.has_mappings) return {};
    const int leader = scenario_.node_leaders[static_cast<std::size_t>(rank)];
    const auto is_leader = [this](int each) { return scenario_.node_leaders[static_cast<std::size_t>(each)] == each; };
    std::size_t node = 0;  // memories are made in the order of the leaders; the ranks of a node are consecutive
    for (int each = 0; each < leader; ++each) node += is_leader(each) ? 1 : 0;
    return {memories_[node].get(), rank - leader};
  }

  /// The time that the next message takes.
  nanoseconds delay() {
    const Delays& delays = scenario_.delays;
    const bool is_slow = delays.slow_one_in != 0 && delays_.one_in(delays.slow_one_in);
    const auto most = is_slow ? delays.most_slow : delays.most;
    return std::chrono::microseconds(delays_.below(static_cast<std::uint64_t>(most.count()) + 1));
  }

  /// Each rank learns of the end of another one at a time of its own.
  bool knows_of_end(int observer, int rank) {
    if (!dies(rank)) return false;
    std::optional<nanoseconds>& at = outcome(rank).fault_at;
    if (!at) at = virtual_time::stopped_since(group_of(rank));
    return at && virtual_time::now() >= *at + milliseconds((observer * 7 + rank * 3) % 30);
  }
  [[nodiscard]] Outcome& outcome(int rank) { return report_.ranks[static_cast<std::size_t>(rank)]; }

  template <class... Args>
  void say(int rank, fmt::format_string<Args...> text, Args&&... args) const {
    if (!trace_) return;
    std::printf("%12.6f rank %d: %s\n", std::chrono::duration<double>(virtual_time::now()).count(), rank,
                fmt::format(text, std::forward<Args>(args)...).c_str());
  }

  /// No rank writes to the outputs of a failed operation any more.
  void look_at_outputs() {
    for (int rank = 0; rank < scenario_.ranks(); ++rank) {
      const auto& buffers = failed_[static_cast<std::size_t>(rank)];
      if (buffers && outcome(rank).failure && !buffers->is_left_alone())
        outcome(rank).wrong.emplace_back("outputs of a failed operation were written after its return");
    }
  }

  /// Waits for the ranks that are not stopped, then lets the stopped ones go on and waits for them.
  void watch() {
    await([this](int rank) { return has_ended(rank) || (stops(rank) && virtual_time::stopped_since(group_of(rank))); });
    for (int rank = 0; rank < scenario_.ranks(); ++rank) {
      if (const auto since = virtual_time::stopped_since(group_of(rank))) outcome(rank).fault_at = *since;
      if (dies(rank) && outcome(rank).fault_at) has_left_ = true;
    }
    look_at_outputs();
    for (int rank = 0; rank < scenario_.ranks(); ++rank) virtual_time::continue_group(group_of(rank));
    await([this](int rank) { return has_ended(rank); });
    may_recover_ = true;
  }

  void await(test::FunctionRef<bool(int)> has_come) {
    const auto limit = virtual_time::now() + scenario_.fail_after * 20;
    for (;;) {
      int missing = 0;
      for (int rank = 0; rank < scenario_.ranks(); ++rank) missing += has_come(rank) ? 0 : 1;
      if (missing == 0) return;
      if (virtual_time::now() > limit) break;
      std::this_thread::sleep_for(milliseconds(10));
    }
    for (int rank = 0; rank < scenario_.ranks(); ++rank) {
      if (!has_come(rank))
        report_.hangs.push_back(fmt::format("rank {} in operation {}", rank, outcome(rank).completed));
    }
  }

  [[nodiscard]] bool has_ended(int rank) const { return has_ended_[static_cast<std::size_t>(rank)] != 0; }

  void be_rank(std::unique_ptr<detail::Transport> transport) {
    const int rank = transport->rank();
    virtual_time::join_group(group_of(rank));
    CommunicatorOptions options;
    options.local_replicas = layout_.count(rank);
    options.fail_after = scenario_.fail_after;
    options.warn_after = scenario_.warn_after;
    std::optional<Communicator> comm = CommunicatorAccess::make(std::move(transport), options, layout_);
    CommunicatorAccess::set_test_hooks(*comm, &hooks);
    try {
      if (scenario_.begins_with_failure) fail_once(*comm, rank);
      operate(comm, rank);
    } catch (const Error& error) {
      outcome(rank).failure = failure_of(error, outcome(rank).completed);
      say(rank, "operation {} failed: {}", outcome(rank).completed, error.what());
      if (scenario_.leaves_after_failure) {
        say(rank, "leaves");
        has_left_ = true;
        comm.reset();
      }
    }
    // A rank that has completed all of its operations learns in one more of a failure, or of none.
    if (scenario_.recovers_at_once && comm &&
        (outcome(rank).failure || has_aborted(rank) || !completes_barrier(*comm, rank)))
      recover(*comm, rank);
    virtual_time::continue_group(group_of(rank));  // a stop that has not begun never begins
    turns_before_stop[static_cast<std::size_t>(group_of(rank))] = 0;
    has_ended_[static_cast<std::size_t>(rank)] = 1;
    while (!may_recover_) std::this_thread::sleep_for(milliseconds(10));
    if (!scenario_.recovers_at_once && comm && report_.hangs.empty() && !has_left_) recover(*comm, rank);
    // a communicator that is destroyed here would be one that its rank has left
    ++at_end_;
    while (at_end_ < scenario_.ranks()) std::this_thread::sleep_for(milliseconds(10));
  }

  [[nodiscard]] bool has_aborted(int rank) const {
    const Fault* const fault = fault_of(rank);
    return fault != nullptr && fault->kind == FaultKind::aborts &&
           report_.ranks[static_cast<std::size_t>(rank)].fault_at;
  }

  bool completes_barrier(const Communicator& comm, int rank) {
    try {
      comm.barrier();
      return true;
    } catch (const Error& error) {
      outcome(rank).failure = failure_of(error, outcome(rank).completed);
      say(rank, "the last barrier failed: {}", error.what());
      return false;
    }
  }

  static Failure failure_of(const Error& error, int operation) {
    return {operation, error.code(), error.text(), error.rank(), virtual_time::now()};
  }

  /// The operations after it are of a later epoch.
  void fail_once(const Communicator& comm, int rank) {
    for (int k = 0; k < 3; ++k) comm.barrier();
    if (rank == 0) {
      comm.abort("the first failure");
    } else {
      try {
        comm.barrier();
        outcome(rank).wrong.emplace_back("an abort is not noticed");
      } catch (const Error&) {
        say(rank, "the first failure");
      }
    }
    static_cast<void>(comm.recover());
  }

  /// Every other time, while the operation is under way.
  void abort(const Communicator& comm, const Operation& operation, const Fault& fault) {
    const std::string text = fmt::format("no more bread on rank {}", fault.rank);
    if (fault.turns % 2 == 0) return comm.abort(text);
    Buffers buffers(operation, fault.operation, layout_, fault.rank, place_of(fault.rank));
    const Item item = buffers.item();
    Request request = start(comm, operation, std::span(&item, 1));
    for (std::uint64_t turn = 0; turn < fault.turns % 8; ++turn) std::this_thread::yield();
    comm.abort(text);
    try {
      request.wait();
    } catch (const Error& error) {
      say(fault.rank, "its operation: {}", error.what());
    }
  }

  void operate(std::optional<Communicator>& comm, int rank) {
    const Fault* const fault = fault_of(rank);
    for (int k = 0; k < static_cast<int>(scenario_.operations.size()); ++k) {
      Operation operation = scenario_.operations[static_cast<std::size_t>(k)];
      if (fault != nullptr && fault->operation == k) {
        if (!stops(rank)) outcome(rank).fault_at = virtual_time::now();
        say(rank, "{}", describe(scenario_, *fault));
        switch (fault->kind) {
          case FaultKind::dies:
          case FaultKind::stops:
            if (fault->is_in_work) {
              turns_before_stop[static_cast<std::size_t>(group_of(rank))] = turn_of_work(*fault);
            } else {
              virtual_time::stop_group(group_of(rank), fault->turns);
            }
            break;
          case FaultKind::is_late: std::this_thread::sleep_for(lateness(scenario_, *fault)); break;
          case FaultKind::aborts: return abort(*comm, operation, *fault);
          case FaultKind::leaves:
            has_left_ = true;
            comm.reset();
            return;
          case FaultKind::calls_other: operation = fault->other; break;
        }
      }
      auto& buffers = failed_[static_cast<std::size_t>(rank)].emplace(operation, k, layout_, rank, place_of(rank));
      try {
        call(*comm, operation, buffers.item());
      } catch (const Error&) {
        buffers.end_by_failure();
        throw;
      }
      say(rank, "completed operation {}: {}", k, describe(operation));
      ++outcome(rank).completed;
      if (std::string wrong = buffers.wrong(); !wrong.empty())
        outcome(rank).wrong.push_back(fmt::format("operation {} ({}): {}", k, describe(operation), wrong));
      failed_[static_cast<std::size_t>(rank)].reset();
    }
  }

  /// After a failure, all ranks can go on from the same operation.
  void recover(const Communicator& comm, int rank) {
    try {
      static_cast<void>(comm.recover());
      for (int k = 0; k < 2; ++k) {
        const Operation operation{Kind::all_reduce, 100 + 4000 * k, 0, false};
        Buffers buffers(operation, k, layout_, rank, place_of(rank));
        call(comm, operation, buffers.item());
        if (std::string wrong = buffers.wrong(); !wrong.empty())
          outcome(rank).wrong.push_back("after recover: " + wrong);
      }
    } catch (const Error& error) {
      outcome(rank).after = failure_of(error, -1);
      say(rank, "after recover: {}", error.what());
    }
  }

  const Scenario& scenario_;
  bool trace_;
  Random delays_;
  ReplicaLayout layout_;
  std::vector<std::shared_ptr<NodeMemories>> memories_;  // by node, if the scenario has mappings
  Report report_;
  // exactly one thread runs at a time
  std::vector<char> has_ended_;
  std::vector<std::optional<Buffers>> failed_;  // by rank: those of its last operation, unless it has completed it
  bool may_recover_ = false;
  bool has_left_ = false;
  int at_end_ = 0;
};

}  // namespace

Report run(const Scenario& scenario, bool trace) { return Job(scenario, trace).run(); }

}  // namespace lockstep::simulation
