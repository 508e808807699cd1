// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes communicators from another communicator, the parent, by operations in the parent's queue. Therefore the
// deadline of the parent applies, and if another rank fails, the wait for that rank ends. The ranks first exchange one
// record each. Then they vote: the vote of a rank says whether the rank can do its part. The last step is a barrier.

#include <lockstep/collectives/communicator.hpp>

#include "collectives/communicator_state.hpp"
#include "collectives/internal_call.hpp"
#include "collectives/make_communicator.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <type_traits>
#include <utility>

namespace lockstep {
namespace {

using Creation = CommunicatorAccess::Creation;

/// The record that one rank sends to all ranks.
struct CreationRecord {
  std::int32_t color = 0;  ///< negative: the rank is in no group
  std::int32_t key = 0;
  std::int32_t local_replicas = 1;
  std::int32_t timeout_ms = 0;  ///< see detail::RankTimeout
  detail::Introduction introduction;
};
static_assert(std::is_trivially_copyable_v<CreationRecord>);

/// The ranks with the color of `rank`, including `rank`, sorted by key and, if keys are equal, by rank. Empty if the
/// color is negative.
std::vector<int> members_of_group(std::span<const CreationRecord> by_rank, int rank) {
  const auto record = [&](int of_rank) -> const CreationRecord& { return by_rank[static_cast<std::size_t>(of_rank)]; };
  std::vector<int> members;
  if (record(rank).color < 0) return members;
  for (int other = 0; other < static_cast<int>(by_rank.size()); ++other) {
    if (record(other).color == record(rank).color) members.push_back(other);
  }
  std::sort(members.begin(), members.end(),
            [&](int a, int b) { return std::pair(record(a).key, a) < std::pair(record(b).key, b); });
  return members;
}

/// Throws Error(mismatch) if ranks of one color have different timeouts, and Error(invalid_argument) if a rank has no
/// replicas. All ranks throw, so that none waits for others.
void check_records(std::string_view call, std::span<const CreationRecord> by_rank) {
  std::map<std::int32_t, detail::RankTimeout> first_of_color;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank].color < 0) continue;
    detail::require_replicas(call, static_cast<int>(rank), by_rank[rank].local_replicas);
    const detail::RankTimeout own{static_cast<int>(rank), by_rank[rank].timeout_ms};
    detail::require_equal_timeouts(call, first_of_color.try_emplace(by_rank[rank].color, own).first->second, own);
  }
}

/// Makes the MPI communicator of the new group. Each rank begins the MPI call when all ranks have arrived at the
/// operation.
class ContextOperation final : public detail::Operation {
 public:
  ContextOperation(const detail::Descriptor& descriptor, std::shared_ptr<detail::NewGroup> group)
      : Operation(descriptor), group_(std::move(group)) {}

  void start(detail::Transport&, detail::Workspace&) override { group_->start_context(); }
  bool advance(detail::Transport&, detail::Workspace&) override { return group_->test_context(); }
  std::vector<int> awaited_ranks() const override { return {}; }
  std::string_view awaited() const override {
    return "MPI_Comm_idup, or the choice between MPI and TCP, is not complete";
  }
  bool abandon(detail::Transport&) noexcept override {
    group_->abandon_context();
    return false;  // the messages of MPI_Comm_idup do not disturb the communicator's messages
  }
  bool survives_faults() const noexcept override { return true; }

 private:
  std::shared_ptr<detail::NewGroup> group_;
};

}  // namespace

/// The creation of one communicator on this rank.
class Communicator::State::Creator {
 public:
  Creator(State& parent, const Creation& creation) : parent_(parent), creation_(creation) {}

  /// Returns the new communicator; none if `color` is negative.
  [[nodiscard]] std::optional<Communicator> make(int color, int key, const CommunicatorOptions& chosen) {
    const detail::MutexLock lock(parent_.creation_mutex);
    // every rank finds the other errors, but only this rank knows that it has no memory
    return propagate([&] { return take_steps(color, key, chosen); }, detail::FoundBy::all_ranks);
  }

 private:
  std::optional<Communicator> take_steps(int color, int key, const CommunicatorOptions& chosen) const {
    const std::int32_t timeout_ms = propagate([&] { return detail::timeout_ms(chosen); });
    const std::shared_ptr<detail::NewGroup> group = propagate([&] { return parent_.engine->begin_group(); });
    const auto records =
        gather(CreationRecord{color, key, chosen.local_replicas, timeout_ms, group->introduction()}, "");
    check_records(creation_.name, records);
    const std::vector<int> members = members_of_group(records, parent_.rank);
    std::vector<detail::Introduction> introductions;
    for (const CreationRecord& record : records) introductions.push_back(record.introduction);
    propagate([&] { group->join(introductions, members); });
    if (group->needs_context()) {
      const auto descriptor =
          detail::make_descriptor(Call::barrier(), Order::canonical, {}, name_of("MPI_Comm_idup"), true);
      const auto making = std::make_shared<ContextOperation>(descriptor, group);
      static_cast<void>(making->try_acquire());  // succeeds: the operation is new
      run(making);
    }
    while (!group->accept(gather(group->vote(), "setup of shared memory"))) {}
    std::vector<int> replicas;
    for (const int member : members) replicas.push_back(records[static_cast<std::size_t>(member)].local_replicas);
    std::optional<Communicator> made = propagate([&]() -> std::optional<Communicator> {
      std::unique_ptr<detail::Transport> transport = group->take();
      if (!transport) return std::nullopt;
      return CommunicatorAccess::make(std::move(transport), chosen, ReplicaLayout(replicas), {},
                                      parent_.engine->family());
    });
    end(made);
    return made;
  }

  [[nodiscard]] std::string name_of(std::string_view step) const {
    std::string name(creation_.name);
    if (!step.empty()) name.append(": ").append(step);
    return name;
  }

  /// Runs `step`, and propagates its errors on this rank to the other ranks.
  template <class Step>
  std::invoke_result_t<const Step&> propagate(const Step& step,
                                              detail::FoundBy found_by = detail::FoundBy::this_rank) const {
    const detail::EngineCall target{*parent_.engine, creation_.where};
    return detail::propagate(target, step, found_by);
  }

  void run(const std::shared_ptr<detail::Operation>& operation) const {
    note_options(*operation,
                 {.order = std::nullopt, .name = {}, .fail_after = creation_.fail_after, .where = creation_.where});
    if (creation_.warn_after) operation->set_warn_after(*creation_.warn_after);
    parent_.engine->run(operation);
  }

  /// Returns when all ranks have their new communicators. If this step fails on a rank, the rank aborts the new
  /// communicator, so that ranks on which the step has completed get the error.
  void end(const std::optional<Communicator>& made) const {
    try {
      const std::string name = name_of("last step");
      const detail::OperationUse use(
          parent_.acquire(Call::barrier(), {}, detail::internal_call(name, creation_.where)));
      run(use.operation());
    } catch (const Error& error) {
      if (made) made->abort(error.text(), creation_.where);
      throw;
    } catch (const std::exception& error) {
      if (made) made->abort(error.what(), creation_.where);
      throw;
    }
  }

  /// The values of all ranks. Collective.
  template <class T>
  [[nodiscard]] std::vector<T> gather(const T& own, std::string_view step) const {
    const auto bytes = [](std::size_t count) { return Shape{static_cast<std::int64_t>(count * sizeof(T))}; };
    const auto replicas = static_cast<std::size_t>(parent_.layout.replicas());
    std::vector<std::byte>& memory = parent_.creation_memory;  // the value of this rank, and those of all replicas
    memory.resize(std::max(memory.size(), (1 + replicas) * sizeof(T)));
    std::memcpy(memory.data(), &own, sizeof(T));
    std::byte* const by_replica = &memory[sizeof(T)];
    const ConstTensorView input(memory.data(), DType::u8, bytes(1));
    const std::vector<ConstTensorView> inputs(static_cast<std::size_t>(parent_.layout.count(parent_.rank)), input);
    const TensorView output{by_replica, DType::u8, bytes(replicas), Device{}};
    const Item item{inputs, std::span(&output, 1)};
    const std::string name = name_of(step);
    const detail::OperationUse use(
        parent_.acquire(Call::all_gather(), std::span(&item, 1), detail::internal_call(name, creation_.where)));
    run(use.operation());
    std::vector<T> by_rank(static_cast<std::size_t>(parent_.layout.ranks()));
    for (int member = 0; member < parent_.layout.ranks(); ++member) {
      const auto replica = static_cast<std::size_t>(parent_.layout.first(member));
      std::memcpy(&by_rank[static_cast<std::size_t>(member)], by_replica + replica * sizeof(T), sizeof(T));
    }
    return by_rank;
  }

  State& parent_;
  const Creation& creation_;
};

std::optional<Communicator> Communicator::split(int color, int key, const CommunicatorOptions& options,
                                                std::source_location where) const {
  return State::Creator(*state_, {"split", where}).make(color, key, options);
}

Communicator CommunicatorAccess::duplicate(const Communicator& parent, const CommunicatorOptions& options,
                                           const Creation& creation) {
  return *Communicator::State::Creator(*parent.state_, creation).make(0, 0, options);
}

}  // namespace lockstep
