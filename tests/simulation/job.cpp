// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/job.hpp"

#include <lockstep/collectives/communicator.hpp>

#include "collectives/make_communicator.hpp"
#include "races/races.hpp"
#include "simulation/allocations.hpp"
#include "simulation/buffers.hpp"
#include "simulation/calls.hpp"
#include "simulation/node_memory.hpp"
#include "simulation/steps.hpp"
#include "support/function_ref.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "virtual_time/virtual_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

namespace lockstep::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

const Scenario* running = nullptr;
std::array<bool, virtual_time::most_groups> stops_soon{};        ///< by group
std::array<bool, virtual_time::most_groups> has_died{};          ///< by group; it goes on in order to end
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
  // the simulation ends a rank that has died here: others have not waited for it, and may have used their memory again
  if (has_died[static_cast<std::size_t>(virtual_time::group())]) throw std::runtime_error("the process has died");
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

bool all_memory(const void*) { return true; }

detail::TestHooks hooks{.at_flag = at_word, .at_turn = at_turn};  // of the running job

/// An operation of a rank that it has begun.
struct Begun {
  Begun(const Operation& operation, int number, const ReplicaLayout& layout, int rank, Place place)
      : number(number), operation(operation), buffers(operation, number, layout, rank, place) {}
  int number;
  Operation operation;
  Buffers buffers;
  std::optional<Request> request;  ///< of an operation that is left open
  bool has_failed = false;
};

class Job {
 public:
  Job(const Scenario& scenario, bool trace)
      : scenario_(scenario), trace_(trace), delays_(scenario.seed), layout_(scenario.replicas) {
    report_.ranks.resize(static_cast<std::size_t>(scenario.ranks()));
    has_ended_.resize(report_.ranks.size());
    begun_.resize(report_.ranks.size());
    running = &scenario;
    hooks.hides_memory = scenario.hides_memory ? all_memory : nullptr;
    hooks.most_turn_bytes = scenario.turn_bytes > 0 ? scenario.turn_bytes : detail::TestHooks().most_turn_bytes;
    stops_soon = {};
    has_died = {};
    turns_before_stop = {};
    forget_failed_allocations();
    forget_messages();
    for (int rank = 0; rank < scenario.ranks(); ++rank)
      stops_soon[static_cast<std::size_t>(group_of(rank))] = stops(rank);
  }

  Report run() {
    virtual_time::Options options;
    options.seed = scenario_.seed | 1;  // 0 would take turns in order
    options.longest = std::chrono::hours(1);
    options.processors = scenario_.processors;
    // a rank that may have died in its work goes on with it when the simulation ends it
    const bool dies_in_work =
        scenario_.has_mappings && std::any_of(scenario_.faults.begin(), scenario_.faults.end(),
                                              [](const Fault& fault) { return fault.kind == FaultKind::dies; });
    virtual_time::VirtualRun virtual_run(options);
    const races::Detection detection({scenario_.seed, scenario_.stale_one_in, at_atomic, at_allocation, trace_});
    {
      detail::LoopbackHooks disturbances;
      disturbances.delay = [this](int, int) { return delay(); };
      disturbances.has_ended = [this](int observer, int rank) { return knows_of_end(observer, rank); };
      if (scenario_.has_connections) {
        disturbances.numbers_transfers = true;
        disturbances.has_lost = disturbances.has_ended;
      }
      if (scenario_.has_mappings) {
        disturbances.make_groups = [this](int size, std::span<const detail::NodePlace> places) {
          const CodeOf code(CodeOf::simulation);
          return NodeMemories::groups(memories_.emplace_back(std::make_shared<NodeMemories>(size)), places);
        };
      }
      auto transports = detail::make_loopback_transports(scenario_.node_leaders, true, disturbances, places());
      std::vector<std::jthread> ranks;
      for (auto& transport : transports) ranks.emplace_back([this, &transport] { be_rank(std::move(transport)); });
      watch();
    }
    if (!dies_in_work) look_at_outputs();
    for (const Fault& fault : scenario_.faults) {
      if (fault.kind == FaultKind::lacks_memory) outcome(fault.rank).fault_at = failed_allocation(group_of(fault.rank));
    }
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
  /// The operations that the rank has begun; after a failure, also those that have failed.
  [[nodiscard]] std::deque<Begun>& begun(int rank) { return begun_[static_cast<std::size_t>(rank)]; }
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
      for (const Begun& each : begun(rank)) {
        if (each.has_failed && outcome(rank).failure && !each.buffers.is_left_alone())
          outcome(rank).wrong.emplace_back("outputs of a failed operation were written after its return");
      }
    }
  }

  /// Waits for the ranks that are not stopped, then lets the stopped ones go on and waits for them.
  void watch() {
    await([this](int rank) { return has_ended(rank) || (stops(rank) && virtual_time::stopped_since(group_of(rank))); });
    for (int rank = 0; rank < scenario_.ranks(); ++rank) {
      if (const auto since = virtual_time::stopped_since(group_of(rank))) outcome(rank).fault_at = *since;
      const bool is_dead = dies(rank) && outcome(rank).fault_at;
      has_died[static_cast<std::size_t>(group_of(rank))] = is_dead;
      has_left_ = has_left_ || is_dead;
    }
    look_at_outputs();
    are_stops_over_ = true;
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
    if (trace_) virtual_time::print_stacks();
    for (int rank = 0; rank < scenario_.ranks(); ++rank) {
      if (!has_come(rank))
        report_.hangs.push_back(fmt::format("rank {} in operation {}", rank, outcome(rank).completed));
    }
  }

  [[nodiscard]] bool has_ended(int rank) const { return has_ended_[static_cast<std::size_t>(rank)] != 0; }

  void be_rank(std::unique_ptr<detail::Transport> transport) {
    const int rank = transport->rank();
    virtual_time::join_group(group_of(rank));
    const CodeOf code(CodeOf::simulation);
    std::optional<Communicator> comm;
    try {
      if (const Fault* const fault = fault_of(rank); fault != nullptr && begins_in_creation(scenario_, *fault))
        begin_fault(*fault);
      {
        CommunicatorOptions options = options_of(rank);
        const CodeOf created_by(CodeOf::library);
        comm = CommunicatorAccess::make(std::move(transport), options,
                                        scenario_.is_created_together ? std::nullopt : std::optional(layout_));
      }
      CommunicatorAccess::set_test_hooks(*comm, &hooks);
      if (scenario_.begins_with_failure) fail_once_without_fault(*comm, rank);
      operate(comm, rank);
    } catch (const std::exception& error) {
      outcome(rank).failure = failure_of(error, rank, outcome(rank).completed);
      say(rank, "operation {} failed: {}", outcome(rank).completed, error.what());
      if (scenario_.leaves_after_failure || !comm) {
        say(rank, "{}", comm ? "leaves" : "has no communicator");
        outcome(rank).has_communicator = comm.has_value();
        has_left_ = true;
        const CodeOf left_by(CodeOf::library);
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

  [[nodiscard]] CommunicatorOptions options_of(int rank) const {
    CommunicatorOptions options;
    options.local_replicas = layout_.count(rank);
    options.fail_after = scenario_.fail_after;
    options.warn_after = scenario_.warn_after;
    return options;
  }

  [[nodiscard]] bool has_aborted(int rank) const {
    const Fault* const fault = fault_of(rank);
    return fault != nullptr && fault->kind == FaultKind::aborts &&
           report_.ranks[static_cast<std::size_t>(rank)].fault_at;
  }

  bool completes_barrier(const Communicator& comm, int rank) {
    try {
      const CodeOf made_by(CodeOf::library);
      comm.barrier();
      return true;
    } catch (const std::exception& error) {
      outcome(rank).failure = failure_of(error, rank, outcome(rank).completed);
      say(rank, "the last barrier failed: {}", error.what());
      return false;
    }
  }

  Failure failure_of(const std::exception& error, int rank, int operation) {
    if (const auto* const typed = dynamic_cast<const Error*>(&error))
      return {operation, typed->code(), typed->text(), typed->rank(), virtual_time::now()};
    if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr)
      outcome(rank).wrong.push_back(fmt::format("an exception of another type: {}", error.what()));
    return {operation, Code::unavailable, error.what(), rank, virtual_time::now()};
  }

  /// As a program tells it to others.
  static std::string text_of(const std::exception& error) {
    const auto* const typed = dynamic_cast<const Error*>(&error);
    return typed != nullptr ? typed->text() : error.what();
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
      } catch (const Error& error) {
        if (error.text().find("the first failure") == std::string::npos) throw;
        say(rank, "the first failure");
      }
    }
    static_cast<void>(comm.recover());
  }

  /// A fault that has not come in the creation of the communicator comes after the first failure.
  void fail_once_without_fault(const Communicator& comm, int rank) {
    const Fault* const fault = fault_of(rank);
    const int group = group_of(rank);
    const bool may_come = fault != nullptr && begins_in_creation(scenario_, *fault) &&
                          (stops(rank) || fault->kind == FaultKind::lacks_memory) && !failed_allocation(group);
    if (may_come) {
      virtual_time::continue_group(group);
      fail_allocation(group, 0);
    }
    fail_once(comm, rank);
    if (may_come) begin_fault(*fault);
  }

  /// Every other time, while the operation is under way.
  void abort(const Communicator& comm, const Operation& operation, const Fault& fault) {
    const std::string text = text_of_abort(fault.rank);
    if (operation.way == Way::step) {
      Begun& own = begin(operation, fault.operation, fault.rank);
      try {
        static_cast<void>(make_step(comm, own.buffers.item(), hooks, text));
        outcome(fault.rank).wrong.emplace_back("a step whose function throws has ended without an error");
      } catch (const Error& error) {  // before it came to throw
        say(fault.rank, "its step: {}", error.what());
      } catch (const std::exception&) {
        comm.abort(text);
      }
      end_by_failure(own);
    } else if (fault.turns % 2 == 0 || operation.makes_communicator() || operation.kind == Kind::messages) {
      comm.abort(text);
    } else {
      Begun& own = begin(operation, fault.operation, fault.rank);
      own.request = start(comm, operation, own.buffers.item());
      for (std::uint64_t turn = 0; turn < fault.turns % 8; ++turn) std::this_thread::yield();
      comm.abort(text);
    }
    end_open(fault.rank);
  }

  Begun& begin(const Operation& operation, int number, int rank) {
    return begun(rank).emplace_back(operation, number, layout_, rank, place_of(rank));
  }

  /// Waits for all operations that the rank has begun, of which the last one may have ended with `error`. Throws the
  /// error of the first one that has failed.
  void complete(int rank, std::exception_ptr error = nullptr) {
    std::exception_ptr first;
    for (Begun& each : begun(rank)) {
      if (each.request) {
        try {
          const CodeOf waits(CodeOf::library);
          each.request->wait();
        } catch (const std::exception&) {
          if (!first) first = std::current_exception();
          end_by_failure(each);
        }
        each.request.reset();
      } else if (each.has_failed && !first) {
        first = error;
      }
      if (each.has_failed) continue;
      say(rank, "completed operation {}: {}", each.number, describe(each.operation));
      ++outcome(rank).completed;
      if (std::string wrong = each.buffers.wrong(); !wrong.empty())
        outcome(rank).wrong.push_back(
            fmt::format("operation {} ({}): {}", each.number, describe(each.operation), wrong));
      if (first && each.operation.kind != Kind::messages)
        outcome(rank).wrong.push_back(
            fmt::format("operation {} has completed, but one before it has failed", each.number));
    }
    if (first) std::rethrow_exception(first);
    begun(rank).clear();
  }

  /// Ends the operations that a rank has left open and that may fail, because of its fault.
  void end_open(int rank) {
    try {
      complete(rank);
    } catch (const std::exception& error) {
      say(rank, "its operation: {}", error.what());
    }
  }

  /// Makes a communicator and an operation on it. A rank that fails there tells the others, which may be in an
  /// operation of `comm` by then.
  void use_other_communicator(const Communicator& comm, const Operation& operation, int number, int rank) {
    const auto all = parts(scenario_, operation);
    const auto has_rank = [rank](const std::vector<int>& part) {
      return std::find(part.begin(), part.end(), rank) != part.end();
    };
    const auto own_part = std::find_if(all.begin(), all.end(), has_rank);
    CommunicatorOptions options = options_of(rank);
    options.name = name_of_part(number, static_cast<std::size_t>(own_part - all.begin()));
    std::optional<Communicator> other;
    if (operation.way == Way::duplicate) {
      const CodeOf made_by(CodeOf::library);
      other = comm.duplicate(options);
    } else {
      const bool takes_part = own_part != all.end();
      const auto place = takes_part ? std::find(own_part->begin(), own_part->end(), rank) - own_part->begin() : 0;
      const CodeOf made_by(CodeOf::library);
      other = comm.split(takes_part ? static_cast<int>(own_part - all.begin()) : -1, static_cast<int>(place), options);
    }
    if (!other) return;
    CommunicatorAccess::set_test_hooks(*other, &hooks);
    const Operation own{operation.kind, operation.count, 0, operation.is_asynchronous};
    Begun& at_end = begun(rank).emplace_back(own, -1, other->layout(), other->rank(), Place());
    try {
      call(*other, own, at_end.buffers.item());
    } catch (const std::exception& error) {
      end_by_failure(at_end);
      comm.abort(text_of(error));
      throw;
    }
    if (std::string wrong = at_end.buffers.wrong(); !wrong.empty())
      outcome(rank).wrong.push_back(fmt::format("on another communicator: {}", wrong));
    begun(rank).pop_back();
  }

  static void end_by_failure(Begun& each) {
    each.has_failed = true;
    each.buffers.end_by_failure();
  }

  /// The rank makes operation `k`. It waits for those that it has left open before or after this one.
  void make(const Communicator& comm, const Operation& operation, int k, int rank) {
    if (!operation.is_left_open && k % 2 == 1) complete(rank);
    Begun& own = begin(operation, k, rank);
    try {
      if (operation.is_left_open) {
        own.request = start(comm, operation, own.buffers.item());
        return;
      }
      switch (operation.way) {
        case Way::call: call(comm, operation, own.buffers.item()); break;
        case Way::run_plan: run_plan(comm, operation, own.buffers.item(), (k + rank) % 3 != 0); break;
        case Way::duplicate:
        case Way::split: use_other_communicator(comm, operation, k, rank); break;
        case Way::step:
          if (std::string wrong = make_step(comm, own.buffers.item(), hooks); !wrong.empty())
            outcome(rank).wrong.push_back(fmt::format("operation {}: {}", k, wrong));
          break;
      }
    } catch (const std::exception& error) {
      end_by_failure(own);
      if (operation.kind == Kind::messages) {
        outcome(rank).of_message = failure_of(error, rank, k);
        comm.abort(text_of(error));  // ranks in a later operation get this error only by abort
      }
      complete(rank, std::current_exception());
    }
    complete(rank);
  }

  /// The part of a fault that comes before the operation, or the creation. A rank that has been let go on stops no
  /// more.
  void begin_fault(const Fault& fault) {
    if (stops(fault.rank) && are_stops_over_) return;
    if (fault.has_pause) std::this_thread::sleep_for(lateness(scenario_, fault));
    if (!stops(fault.rank) && fault.kind != FaultKind::lacks_memory) outcome(fault.rank).fault_at = virtual_time::now();
    say(fault.rank, "{}", describe(scenario_, fault));
    const auto group = static_cast<std::size_t>(group_of(fault.rank));
    if (fault.kind == FaultKind::is_late) {
      std::this_thread::sleep_for(lateness(scenario_, fault));
    } else if (stops(fault.rank) && fault.is_in_work) {
      turns_before_stop[group] = turn_of_work(fault);
    } else if (stops(fault.rank)) {
      virtual_time::stop_group(static_cast<int>(group), fault.turns);
    } else if (fault.kind == FaultKind::lacks_memory) {
      fail_allocation(static_cast<int>(group), fault.turns);
    }
  }

  void operate(std::optional<Communicator>& comm, int rank) {
    const Fault* const fault = fault_of(rank);
    for (int k = 0; k < static_cast<int>(scenario_.operations.size()); ++k) {
      Operation operation = scenario_.operations[static_cast<std::size_t>(k)];
      if (fault != nullptr && fault->operation == k && !begins_in_creation(scenario_, *fault)) {
        begin_fault(*fault);
        switch (fault->kind) {
          case FaultKind::dies:
          case FaultKind::stops:
          case FaultKind::is_late:
          case FaultKind::lacks_memory: break;
          case FaultKind::aborts: return abort(*comm, operation, *fault);
          case FaultKind::leaves:
            has_left_ = true;
            comm.reset();
            end_open(rank);
            outcome(rank).left_at = virtual_time::now();
            return;
          case FaultKind::calls_other: operation = fault->other; break;
        }
      }
      make(*comm, operation, k, rank);
    }
    complete(rank);
  }

  /// A message from each rank to each other one whose calls match.
  void exchange_messages(const Communicator& comm, int rank) {
    std::deque<Buffers> messages;  // by distance of the ranks
    std::vector<Request> requests;
    requests.reserve(2 * report_.ranks.size());
    std::exception_ptr first;
    const auto note_error = [&first](const auto& make_call) {  // it does not keep the others waiting
      try {
        const CodeOf made_by(CodeOf::library);
        make_call();
      } catch (const std::exception&) {
        if (!first) first = std::current_exception();
      }
    };
    for (int distance = 1; distance < scenario_.ranks(); ++distance) {
      const Operation operation{Kind::messages, distance % 2 == 0 ? 3 : 1100, distance - 1};
      const Item item = messages.emplace_back(operation, distance, layout_, rank, place_of(rank)).item();
      const auto [target, source] = partners(operation, rank, scenario_.ranks());
      if (are_matched(source, rank)) note_error([&] { requests.push_back(comm.recv_async(item.outputs, source)); });
      if (are_matched(rank, target)) note_error([&] { requests.push_back(comm.send_async(item.inputs, target)); });
    }
    for (Request& request : requests) note_error([&request] { request.wait(); });
    if (first) std::rethrow_exception(first);
    for (int distance = 1; distance < scenario_.ranks(); ++distance) {
      const int source = partners({Kind::messages, 0, distance - 1}, rank, scenario_.ranks()).source;
      const std::string wrong = messages[static_cast<std::size_t>(distance) - 1].wrong();
      if (are_matched(source, rank) && !wrong.empty())
        outcome(rank).wrong.push_back(fmt::format("a message of rank {} after recover: {}", source, wrong));
    }
  }

  /// After a failure, all ranks can go on from the same operation.
  void recover(const Communicator& comm, int rank) {
    outcome(rank).recovers_at = virtual_time::now();
    const bool had_fault = failed_allocation(group_of(rank)).has_value();
    try {
      try {
        const CodeOf recovered_by(CodeOf::library);
        static_cast<void>(comm.recover());
      } catch (const std::exception& error) {
        if (had_fault || !failed_allocation(group_of(rank))) throw;
        say(rank, "recovers again: {}", error.what());
        static_cast<void>(comm.recover());
      }
      outcome(rank).recovers_at = virtual_time::now();
      for (int k = 0; k < 2; ++k) {
        const Operation operation{Kind::all_reduce, 100 + 4000 * k, 0, false};
        Buffers buffers(operation, k, layout_, rank, place_of(rank));
        call(comm, operation, buffers.item());
        if (std::string wrong = buffers.wrong(); !wrong.empty())
          outcome(rank).wrong.push_back("after recover: " + wrong);
      }
      exchange_messages(comm, rank);
    } catch (const std::exception& error) {
      outcome(rank).after = failure_of(error, rank, -1);
      say(rank, "after recover: {}", error.what());
    }
    outcome(rank).lacks_memory_in_recovery = !had_fault && failed_allocation(group_of(rank));
  }

  const Scenario& scenario_;
  bool trace_;
  Random delays_;
  ReplicaLayout layout_;
  std::vector<std::shared_ptr<NodeMemories>> memories_;  // by node, if the scenario has mappings
  Report report_;
  // exactly one thread runs at a time
  std::vector<char> has_ended_;
  std::vector<std::deque<Begun>> begun_;  // by rank
  bool are_stops_over_ = false;
  bool may_recover_ = false;
  bool has_left_ = false;
  int at_end_ = 0;
};

}  // namespace

Report run(const Scenario& scenario, bool trace) { return Job(scenario, trace).run(); }

}  // namespace lockstep::simulation
