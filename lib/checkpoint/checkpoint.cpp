// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/checkpoint/checkpoint.hpp>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/implementation.hpp"
#include "context/replica_team.hpp"
#include "variables/variable_access.hpp"

#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/context/context.hpp>
#include <lockstep/strategy/strategy.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep {
namespace {

void warn_of_incomplete(const std::string& directory, const detail::Found& found) {
  const bool is_one = found.incomplete.size() == 1;
  detail::log_warning("restore_latest: {}: skipping step{} {} without {}, because {} save{} not complete; restoring {}",
                      directory, is_one ? "" : "s", fmt::join(found.incomplete, ", "), detail::manifest_name,
                      is_one ? "its" : "their", is_one ? " was" : "s were",
                      found.latest ? fmt::format("step {} instead", *found.latest)
                                   : std::string("nothing: there is no other checkpoint"));
}

/// Calls `call`. If this rank has no memory for it, the other ranks, which wait for this rank, throw
/// Error(unavailable); all ranks find any other failure.
template <class Call>
auto share_lack_of_memory(Checkpoint::Implementation& checkpoint, const Call& call) {
  return detail::propagate_lack_of_memory(checkpoint.communicator, call);
}

}  // namespace

Checkpoint::Implementation::Implementation(Strategy* owner, const Communicator& ranks, const CheckpointOptions& chosen)
    : strategy(owner), communicator(ranks), options(chosen) {
  if (options.keep_last < 0) {
    detail::throw_error(Code::invalid_argument,
                        "Checkpoint: keep_last is {}; it must be at least 1, or 0 to keep all checkpoints",
                        options.keep_last);
  }
}

bool Checkpoint::Implementation::is_taken(const std::string& name) const noexcept {
  const auto has_name = [&name](const auto& tracked) { return tracked.name == name; };
  return std::any_of(variables.begin(), variables.end(), has_name) || std::any_of(words.begin(), words.end(), has_name);
}

void Checkpoint::Implementation::require_free_name(const std::string& name) const {
  if (is_taken(name)) {
    detail::throw_error(Code::invalid_argument, "track: \"{}\" is tracked already; each object must have a unique name",
                        name);
  }
  if (name.empty() || name == "__metadata__" || name.ends_with(copies_suffix)) {
    detail::throw_error(
        Code::invalid_argument,
        "track: the name \"{}\" is not allowed; it must not be empty, not be __metadata__, and not end in {}", name,
        copies_suffix);
  }
  if (!detail::is_utf8(name)) detail::throw_error(Code::invalid_argument, "track: the name is not valid UTF-8");
}

void Checkpoint::Implementation::require_own(const std::string& name, const Variable& variable) const {
  const ReplicaTeam& owner = VariableAccess::team(variable);
  const bool is_own = strategy == nullptr
                          ? owner.has_plain_variables()
                          : owner.is_default() || strategy->extended().variable_created_in_scope(variable);
  if (is_own) return;
  detail::throw_error(
      Code::invalid_argument,
      "track: \"{}\" is variable \"{}\", which {} created, but {}; track it with a Checkpoint of the "
      "strategy that created it",
      name, variable.name(), owner.title(),
      strategy == nullptr ? "this Checkpoint has no strategy" : "this Checkpoint is of another strategy");
}

void Checkpoint::Implementation::require_ready(std::string_view call) const {
  if (has_strategy() && !in_cross_replica_context()) {
    detail::throw_error(Code::failed_precondition,
                        "{}: called in replica context; call it in cross-replica context, once for all replicas", call);
  }
  const auto under_way = pending.lock();
  if (under_way && !under_way->is_finished()) {
    detail::throw_error(Code::failed_precondition,
                        "{}: a save of this checkpoint is in progress; call wait() on the result of save_async first",
                        call);
  }
}

Checkpoint::Checkpoint(Strategy& strategy, const CheckpointOptions& options)
    : implementation_(std::make_unique<Implementation>(&strategy, strategy.communicator(), options)) {}
Checkpoint::Checkpoint(const CheckpointOptions& options)
    : implementation_(std::make_unique<Implementation>(nullptr, self_communicator(), options)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

void Checkpoint::add_variable(const std::string& name, const Variable& variable) {
  implementation_->require_free_name(name);
  implementation_->require_own(name, variable);
  implementation_->variables.push_back({name, variable});
}

void Checkpoint::add_variables(const std::string& name, const std::vector<Variable>& variables) {
  for (const Variable& variable : variables) {
    const std::string wanted = name + "/" + variable.name();
    std::string free = wanted;
    for (int k = 1; implementation_->is_taken(free); ++k) free = fmt::format("{}_{}", wanted, k);
    add_variable(free, variable);
  }
}

void Checkpoint::add_words(const std::string& name, WordsObject object) {
  implementation_->require_free_name(name);
  implementation_->words.push_back({name, std::move(object)});
}

std::string Checkpoint::save(const std::string& directory, std::int64_t step) {
  implementation_->require_ready("save");
  return share_lack_of_memory(*implementation_, [&] {
    PendingSave::Implementation save(*implementation_, directory, step);
    save.write();
    return save.finish();
  });
}

PendingSave Checkpoint::save_async(const std::string& directory, std::int64_t step) {
  implementation_->require_ready("save_async");
  return share_lack_of_memory(*implementation_, [&] {
    auto save = std::make_shared<PendingSave::Implementation>(*implementation_, directory, step);
    detail::run_on_all_ranks(implementation_->communicator, [&] {
      save->copy();
      save->start_thread();
    });
    save->write_in_background();
    implementation_->pending = save;
    return PendingSave(std::move(save));
  });
}

std::int64_t Checkpoint::restore(const std::string& path, const RestoreOptions& options) {
  implementation_->require_ready("restore");
  return share_lack_of_memory(*implementation_, [&] { return detail::Restore(*implementation_, path, options).run(); });
}

std::int64_t Checkpoint::restore(const std::string& directory, std::int64_t step, const RestoreOptions& options) {
  implementation_->require_ready("restore");
  return share_lack_of_memory(*implementation_, [&] {
    detail::run_on_all_ranks(implementation_->communicator, [&] { detail::require_name("restore", directory); });
    return restore(detail::step_path(directory, step).string(), options);
  });
}

std::optional<std::int64_t> Checkpoint::restore_latest(const std::string& directory, const RestoreOptions& options) {
  implementation_->require_ready("restore_latest");
  return share_lack_of_memory(*implementation_, [&]() -> std::optional<std::int64_t> {
    Communicator& communicator = implementation_->communicator;
    std::optional<std::string> path;
    detail::run_on_all_ranks(communicator, [&] {
      detail::require_name("restore_latest", directory);
      if (communicator.rank() != 0) return;
      const detail::Found found = detail::find_checkpoints(directory);
      if (found.latest) path = detail::step_path(directory, *found.latest).string();
      if (!found.incomplete.empty()) warn_of_incomplete(directory, found);
    });
    const std::string name = detail::from_rank_0(communicator, path.value_or(""));
    if (name.empty()) return std::nullopt;
    return restore(name, options);
  });
}

std::optional<std::string> Checkpoint::latest(const std::string& directory) {
  const std::vector<std::int64_t> all = steps(directory);
  if (all.empty()) return std::nullopt;
  return detail::step_path(directory, all.back()).string();
}

std::vector<std::int64_t> Checkpoint::steps(const std::string& directory) { return detail::steps_in(directory); }

}  // namespace lockstep
