// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "shortages/trial.hpp"

#include <lockstep/base/error.hpp>

#include "collectives/make_communicator.hpp"
#include "support/ranks.hpp"
#include "support/temporary_directory.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "virtual_time/virtual_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace lockstep::shortages {
namespace {

/// An error reaches every rank in this time, far below the deadline of minutes.
constexpr std::chrono::seconds bound(10);
constexpr int most_recoveries = 6;

Outcome outcome_of(test::FunctionRef<void()> call) {
  const std::chrono::nanoseconds begin = virtual_time::now();
  Outcome outcome;
  try {
    call();
    outcome.kind = "passed";
  } catch (const Error& error) {
    outcome.kind = to_string(error.code());
    outcome.text = error.text();
    outcome.rank = error.rank();
  } catch (const std::bad_alloc&) {
    outcome.kind = "bad_alloc";
  } catch (const std::system_error& error) {
    outcome.kind = "system_error";
    outcome.text = error.what();
  } catch (const std::exception& error) {
    outcome.kind = "exception";
    outcome.text = error.what();
  }
  outcome.took = virtual_time::now() - begin;
  return outcome;
}

std::string shown(const Outcome& outcome) {
  return outcome.text.empty() ? outcome.kind : fmt::format("{}: {}", outcome.kind, outcome.text);
}

bool is_memory(Kind kind) { return kind == Kind::memory || kind == Kind::mapping; }

/// What is wrong with the outcome of the rank that lacks a resource; empty: nothing.
std::string fault_here(const Outcome& outcome, Kind kind) {
  if (outcome.kind == "passed") return {};
  if (kind == Kind::short_write) return "a short write is an error";
  if (outcome.kind == "bad_alloc") return is_memory(kind) ? "" : "not a typed error";
  if (outcome.kind == "unavailable" || outcome.kind == "failed_precondition" || outcome.kind == "invalid_argument")
    return {};
  return "not a typed error";
}

/// What is wrong with the outcome of another rank.
std::string fault_elsewhere(const Outcome& outcome, const Outcome& here) {
  if (outcome.kind == "passed") return {};
  if (here.kind == outcome.kind && here.text == outcome.text && !here.text.empty()) return {};
  if (outcome.kind != "unavailable") return "not unavailable";
  if (outcome.rank == 0 || outcome.text.find("rank 0") != std::string::npos) return {};
  return "does not name rank 0";
}

}  // namespace

Rank::Rank(std::unique_ptr<detail::Transport> transport, Kind kind, std::optional<long> k,
           const std::filesystem::path& directory)
    : number_(transport->rank()), transport_(std::move(transport)), kind_(kind), k_(k), directory_(directory) {}

Communicator& Rank::communicator() {
  if (!communicator_) communicator_ = CommunicatorAccess::make(std::move(transport_), test::minutes_to_fail());
  return *communicator_;
}

void Rank::tries(test::FunctionRef<void()> call, const Communicator& communicator) {
  tries_once(call);
  recover(communicator);
  if (complaints_.empty()) try_again(call);
}

void Rank::tries_alone(test::FunctionRef<void()> call) {
  tries_once(call);
  try_again(call);
}

void Rank::tries_once(test::FunctionRef<void()> call) {
  std::optional<Shortage> shortage;
  if (number_ == 0) shortage.emplace(kind_, k_);
  outcome_ = outcome_of(call);
}

void Rank::try_again(test::FunctionRef<void()> call) {
  const Outcome again = outcome_of(call);
  if (again.kind != "passed") complain("the same call, made again: " + shown(again));
}

void Rank::recover(const Communicator& communicator) {
  Outcome last;
  for (int attempt = 0; attempt < most_recoveries; ++attempt) {
    last = outcome_of([&] {
      static_cast<void>(communicator.recover());
      communicator.barrier({.name = "after recover"});
    });
    if (last.kind == "passed") return;
    if (last.took > bound) break;
  }
  complain("recover and a barrier: " + shown(last));
}

Trial run_trial(const Row& row, Kind kind, std::optional<long> k) {
  Trial trial;
  const Held before = held();
  int left = 0;
  {
    const test::TemporaryDirectory directory;
    virtual_time::Options options;
    options.processors = 4;
    virtual_time::VirtualRun run(options);
    {
      auto transports = detail::make_loopback_transports(row.leaders, true);
      std::vector<std::unique_ptr<Rank>> ranks;
      for (auto& transport : transports)
        ranks.push_back(std::make_unique<Rank>(std::move(transport), kind, k, directory.path()));
      transports.clear();
      {
        std::vector<std::jthread> threads;
        for (std::unique_ptr<Rank>& rank : ranks) {
          threads.emplace_back([&rank, &row] {
            virtual_time::join_group(group_of_shortage + rank->number());
            const Outcome outcome = outcome_of([&] { row.body(*rank); });
            if (outcome.kind != "passed") rank->complain("outside of the call: " + shown(outcome));
          });
        }
      }
      trial.has_failed = has_failed();
      trial.counted = counted();
      for (const std::unique_ptr<Rank>& rank : ranks) {
        trial.outcomes.push_back(rank->outcome());
        for (const std::string& text : rank->complaints())
          trial.complaints.push_back(fmt::format("rank {}: {}", rank->number(), text));
      }
    }
    left = run.end();
  }
  if (left > 0) trial.complaints.push_back(fmt::format("{} threads have not ended", left));
  const Outcome& here = trial.outcomes.front();
  for (std::size_t rank = 0; rank < trial.outcomes.size(); ++rank) {
    const Outcome& outcome = trial.outcomes[rank];
    std::string fault = rank == 0 ? fault_here(outcome, kind) : fault_elsewhere(outcome, here);
    if (fault.empty() && !trial.has_failed && outcome.kind != "passed") fault = "nothing ran out";
    if (fault.empty() && outcome.took > bound)
      fault = fmt::format("after {} s", std::chrono::duration_cast<std::chrono::seconds>(outcome.took).count());
    if (!fault.empty()) trial.complaints.push_back(fmt::format("rank {}: {}: {}", rank, fault, shown(outcome)));
  }
  const Held after = held();
  const Trial copy = trial;
  const long of_result = held().allocations - after.allocations;
  trial.more = {after.allocations - before.allocations - of_result, after.mappings - before.mappings,
                after.descriptors - before.descriptors};
  return trial;
}

}  // namespace lockstep::shortages
