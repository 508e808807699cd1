// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The rendezvous of the replicas of a step: every local replica makes its call, and the first replica executes the call
// for the rank.

#include "base/check.hpp"
#include "collectives/call/descriptor.hpp"
#include "collectives/compared_arguments.hpp"
#include "collectives/engine/propagation_mark.hpp"
#include "context/step.hpp"
#include "context/thread_context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace lockstep {
namespace {

std::string_view name_of(CallKind kind) {
  switch (kind) {
    case CallKind::all_reduce: return "all_reduce";
    case CallKind::broadcast: return "broadcast";
    case CallKind::all_gather: return "all_gather";
    case CallKind::all_reduce_mixed: return "all_reduce with sparse values";
    case CallKind::merge_call: return "merge_call";
  }
  return "unknown";
}

CommunicationOptions options_of(const RendezvousCall& call) {
  return call.options != nullptr ? *call.options : CommunicationOptions{};
}

/// The user's call, and its line if that is known.
std::string text_of(const RendezvousCall& call) {
  std::string text(call.user.call.empty() ? name_of(call.kind) : call.user.call);
  if (!call.user.variable.empty()) text += fmt::format(" of variable \"{}\"", call.user.variable);
  if (call.options != nullptr) text += detail::describe(call.options->where);
  return text;
}

/// Cache lines of `bytes` bytes.
std::uint64_t lines_of(std::size_t bytes) { return (bytes + 63) / 64; }

/// The name of the collective of `call`; empty unless the call writes a variable.
std::string name_of_collective(const RendezvousCall& call) {
  return call.variable.empty() ? std::string() : name_of_write(call.user);
}

}  // namespace

std::string name_of_write(const UserCall& write) { return fmt::format("{} to {}", write.call, write.variable); }

void Step::meet(int local, const RendezvousCall& call) {
  Slot& mine = slot(local);
  mine.call = &call;
  if (replicas_.size() == 1) {
    execute(0);
    return;
  }
  if (aborted()) throw_abort_error();
  const std::uint32_t rendezvous = ++mine.rendezvous;
  pass_turn(local);
  mine.arrived.store(rendezvous);
  team_.waiter().wake();
  if (local == 0) {
    lead(rendezvous);
    return;
  }
  if (Group& group = group_of(local); group.first == local) {
    wait_for_others(local, rendezvous);
    gather_early(group, rendezvous);
  }
  follow(local, rendezvous);
}

int Step::ended_before(std::uint32_t rendezvous) const noexcept {
  if (ended_.load() == 0) return -1;
  for (int i = 0; i < team_.local_replicas(); ++i) {
    const Slot& other = slots_[static_cast<std::size_t>(i)];
    // `finished` is read first, because a replica sets `arrived` before it sets `finished`
    if (other.finished.load() && other.arrived.load() < rendezvous) return i;
  }
  return -1;
}

int Step::missing_from(std::uint32_t rendezvous) const noexcept {
  for (int i = 0; i < team_.local_replicas(); ++i) {
    if (slots_[static_cast<std::size_t>(i)].arrived.load() < rendezvous) return i;
  }
  return -1;
}

Error Step::returned_error(int ended, int waiting) {
  const RendezvousCall& call = *slot(waiting).call;
  const int first = team_.first_replica_id();
  return Error(Code::failed_precondition,
               fmt::format("run: replica {} returned from the step while replica {} waits in {}; the replicas made a "
                           "different number of calls, but each must make the same calls, in the same order",
                           first + ended, first + waiting, text_of(call)),
               {team_.communicator().rank(), first + ended, std::string(name_of(call.kind)), -1});
}

Error Step::deadline_error(int missing, int waiting) {
  const RendezvousCall& call = *slot(waiting).call;
  const int first = team_.first_replica_id();
  return Error(Code::deadline_exceeded,
               fmt::format("{}: timed out after {} s: replica {} waits in the call, but replica {} of the same rank "
                           "does not make it",
                           text_of(call), std::chrono::duration<double>(team_.fail_after()).count(), first + waiting,
                           first + missing),
               {team_.communicator().rank(), first + missing, std::string(name_of(call.kind)), -1});
}

void Step::wait_for_others(int local, std::uint32_t rendezvous) {
  const Group& mine = group_of(local);
  int member = 1;
  int group = local == 0 ? 1 : groups();
  const auto all_are_here = [&] {
    while (member < mine.size && slot(local + member).arrived.load() >= rendezvous) ++member;
    if (member < mine.size) return false;
    while (group < groups() && groups_[static_cast<std::size_t>(group)].gathered.load() >= rendezvous) ++group;
    return group == groups();
  };
  const auto ready = [&] { return all_are_here() || aborted() || ended_before(rendezvous) >= 0; };
  for (;;) {
    const bool in_time = team_.waiter().wait_until(ready, Waiter::Clock::now() + team_.fail_after());
    if (all_are_here()) break;
    const int missing = missing_from(rendezvous);
    if (const int ended = ended_before(rendezvous); ended >= 0) {
      abort(returned_error(ended, local), false);
    } else if (!in_time && missing >= 0) {
      abort(deadline_error(missing, local), false);
    }
    // all replicas can have arrived by now, but not all groups have gathered: then this one waits again
    if (aborted()) throw_abort_error();
  }
  slot(local).lines += static_cast<std::uint64_t>(mine.size - 1 + (local == 0 ? groups() - 1 : 0));
}

void Step::lead(std::uint32_t rendezvous) {
  const auto start = Waiter::Clock::now();
  wait_for_others(0, rendezvous);
  team_.add_rendezvous_seconds(std::chrono::duration<double>(Waiter::Clock::now() - start).count());
  Status expected = Status::open;
  if (!status_.compare_exchange_strong(expected, Status::closed)) throw_abort_error();
  execute(rendezvous);
}

void Step::follow(int local, std::uint32_t rendezvous) {
  Group& group = group_of(local);
  std::atomic<std::uint32_t>& source = group.first == local ? released_ : group.released;
  bool passes_on = group.first == local && group.size > 1;  // this replica must still release the others of its group
  const auto released = [&, this] {
    return source.load() >= rendezvous && (passes_on || mode_ == RunMode::concurrent || turn_.load() == local);
  };
  const auto leader_ended = [this, rendezvous] {
    return ended_.load() > 0 && slot(0).finished.load() && slot(0).arrived.load() < rendezvous;
  };
  const auto ready = [&] {
    return released() || aborted() || team_.has_published(local) || team_.parallel_loop().is_open() || leader_ended();
  };
  for (;;) {
    const bool in_time = team_.waiter().wait_until(ready, Waiter::Clock::now() + team_.fail_after());
    if (passes_on && released()) {
      passes_on = false;
      group.released.store(rendezvous);
      team_.waiter().wake();
    }
    if (released()) break;
    if (aborted()) throw_abort_error();
    if (team_.has_published(local)) {
      team_.run_published(local);  // the leader's merge function has published a nested step
    } else if (team_.parallel_loop().is_open()) {
      team_.parallel_loop().help();  // helps in the collective of the leader
    } else if (leader_ended()) {
      abort(returned_error(0, local), false);
    } else if (!in_time) {
      // if the rendezvous is closed, only the leader can end it, because the leader uses the views of this replica
      abort(deadline_error(std::max(missing_from(rendezvous), 0), local), true);
    }
  }
  ++slot(local).lines;
  if (shared_error_) throw Error(*shared_error_);
}

void Step::execute(std::uint32_t rendezvous) {
  const bool alone = replicas_.size() == 1;
  const RendezvousCall& call = *slot(0).call;
  shared_error_.reset();
  try {
    alone ? unite_groups() : detail::propagate(team_.communicator(), [&] { unite_groups(); });
    const detail::ComparedArguments compared(team_.communicator(), call.structure);
    switch (call.kind) {
      case CallKind::all_reduce: reduce(call); break;
      case CallKind::broadcast: broadcast(call); break;
      case CallKind::all_gather:
      case CallKind::all_reduce_mixed:
      case CallKind::merge_call: merge(call); break;
    }
  } catch (const Error& error) {
    if (alone) throw;
    if (call.kind == CallKind::merge_call) {
      end_by_leader();
    } else {
      shared_error_.emplace(error);
      release(rendezvous);
    }
    throw;
  } catch (...) {
    if (!alone) end_by_leader();
    throw;
  }
  if (!alone) release(rendezvous);
}

void Step::release(std::uint32_t rendezvous) noexcept {
  groups_[0].released.store(rendezvous);
  released_.store(rendezvous);
  status_.store(Status::open);
  team_.waiter().wake();
}

void Step::end_by_leader() noexcept {
  status_.store(Status::open);  // so that fail() can abort the step: an abort waits while the rendezvous is closed
  fail(0, std::current_exception());
}

void Step::gather_early(Group& group, std::uint32_t rendezvous) {
  // A member leaves an aborted step, but only after `reads_calls` is false. Either this thread sees that the step is
  // aborted, or that member sees the store to `reads_calls`.
  group.reads_calls.store(true);
  if (aborted()) {
    group.reads_calls.store(false);
    throw_abort_error();
  }
  group.error = nullptr;
  try {
    gather(group);
  } catch (...) {
    group.error = std::current_exception();
  }
  group.reads_calls.store(false);
  group.gathered.store(rendezvous);
  team_.waiter().wake();
}

void Step::gather(Group& group) {
  for (int i = 1; i < group.size; ++i) check_same_call(group.first, group.first + i);
  group.inputs.clear();
  group.outputs.clear();
  group.parts.clear();
  const RendezvousCall& call = *slot(group.first).call;
  const auto others = static_cast<std::uint64_t>(group.size - 1);
  slot(group.first).lines += others * lines_of(sizeof call);
  if (call.function.call != nullptr) {
    for (int i = 0; i < group.size; ++i) group.parts.push_back(slot(group.first + i).call->part);
    return;
  }
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    for (int i = 0; i < group.size; ++i) {
      const RendezvousCall& of_member = *slot(group.first + i).call;
      group.inputs.push_back(of_member.inputs[k]);
      group.outputs.push_back(of_member.outputs[k]);
    }
  }
  slot(group.first).lines += others * (lines_of(call.inputs.size() * sizeof(ConstTensorView)) +
                                       lines_of(call.outputs.size() * sizeof(TensorView)));
}

void Step::unite_groups() {
  gather(groups_[0]);
  arguments_ = groups_.get();
  if (groups() == 1) return;
  united_.inputs.clear();
  united_.outputs.clear();
  united_.parts.clear();
  for (int i = 1; i < groups(); ++i) {
    const Group& group = groups_[static_cast<std::size_t>(i)];
    if (group.error != nullptr) std::rethrow_exception(group.error);
    check_same_call(0, group.first);
  }
  for (int i = 0; i < groups(); ++i) {
    const Group& group = groups_[static_cast<std::size_t>(i)];
    united_.parts.insert(united_.parts.end(), group.parts.begin(), group.parts.end());
  }
  const RendezvousCall& call = *slot(0).call;
  const std::size_t leaves = call.function.call != nullptr ? 0 : call.inputs.size();
  for (std::size_t k = 0; k < leaves; ++k) {
    for (int i = 0; i < groups(); ++i) {
      const Group& group = groups_[static_cast<std::size_t>(i)];
      const auto size = static_cast<std::size_t>(group.size);
      const auto inputs = std::span(group.inputs).subspan(k * size, size);
      const auto outputs = std::span(group.outputs).subspan(k * size, size);
      united_.inputs.insert(united_.inputs.end(), inputs.begin(), inputs.end());
      united_.outputs.insert(united_.outputs.end(), outputs.begin(), outputs.end());
    }
  }
  arguments_ = &united_;
  for (int i = 1; i < groups(); ++i) {
    const Group& group = groups_[static_cast<std::size_t>(i)];
    slot(0).lines += lines_of(sizeof call) + lines_of(group.parts.size() * sizeof group.parts[0]) +
                     lines_of(group.inputs.size() * sizeof group.inputs[0]) +
                     lines_of(group.outputs.size() * sizeof group.outputs[0]);
  }
}

void Step::check_same_call(int expected, int local) {
  const RendezvousCall& first = *slot(expected).call;
  const RendezvousCall& other = *slot(local).call;
  const int id = team_.first_replica_id();
  const auto context = [&] {
    return ErrorContext{team_.communicator().rank(), id + local, std::string(name_of(first.kind)), -1};
  };
  const auto refuse = [&](std::string_view what, const std::string& here, const std::string& there) {
    throw Error(Code::mismatch,
                fmt::format("{}: {} is {} on replica {} but {} on replica {}; all replicas must make the same call",
                            text_of(first), what, there, id + local, here, id + expected),
                context());
  };
  if (other.kind != first.kind || other.variable != first.variable) {
    throw Error(Code::failed_precondition,
                fmt::format("run: replica {} calls {}, but replica {} calls {}; all replicas must make the same calls, "
                            "in the same order",
                            id + local, text_of(other), id + expected, text_of(first)),
                context());
  }
  if (other.structure != first.structure) {
    refuse("the structure", std::string(first.structure), std::string(other.structure));
  }
  if (first.function.call != nullptr) {
    if (*other.part.type != *first.part.type) {
      throw Error(Code::failed_precondition,
                  fmt::format("{}: replica {} passes arguments of other types than replica {}, or its function "
                              "returns another type; all replicas must make the same call",
                              text_of(first), id + local, id + expected),
                  context());
    }
    return;
  }
  if (other.op != first.op) refuse("op", std::string(to_string(first.op)), std::string(to_string(other.op)));
  if (other.root != first.root) refuse("the root", fmt::format("{}", first.root), fmt::format("{}", other.root));
  if (other.inputs.size() != first.inputs.size()) {
    refuse("the number of values", fmt::format("{}", first.inputs.size()), fmt::format("{}", other.inputs.size()));
  }
  for (std::size_t k = 0; k < first.inputs.size(); ++k) {
    const ConstTensorView& a = first.inputs[k];
    const ConstTensorView& b = other.inputs[k];
    if (a.dtype != b.dtype) {
      refuse(fmt::format("the dtype of value {}", k), std::string(to_string(a.dtype)), std::string(to_string(b.dtype)));
    }
    if (!(a.shape == b.shape)) {
      refuse(fmt::format("the shape of value {}", k), to_string(a.shape), to_string(b.shape));
    }
  }
}

void Step::make_items(std::size_t first, std::size_t inputs_per_item) {
  const auto count = replicas_.size();
  items_.clear();
  for (std::size_t k = 0; k < slot(0).call->inputs.size(); ++k) {
    items_.push_back({std::span<const ConstTensorView>(arguments_->inputs).subspan(k * count + first, inputs_per_item),
                      std::span<const TensorView>(arguments_->outputs).subspan(k * count, count)});
  }
}

void Step::reduce(const RendezvousCall& call) {
  bool unchanged = team_.replicas() == 1;  // with one replica, a reduction in place changes nothing
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    const ConstTensorView& input = call.inputs[k];
    const TensorView& output = call.outputs[k];
    if (output.dtype != result_dtype(call.op, input.dtype)) {
      detail::propagate(team_.communicator(), [&] {
        detail::throw_error(Code::invalid_argument,
                            "all_reduce: value {0} is {1}, but its {2} is {3}, which {1} cannot hold; pass a Tensor, "
                            "or convert the value to {3} first",
                            k, to_string(input.dtype), to_string(call.op),
                            to_string(result_dtype(call.op, input.dtype)));
      });
    }
    unchanged = unchanged && input.data == output.data && supports(call.op, input.dtype);
  }
  if (unchanged) return;
  make_items(0, replicas_.size());
  team_.reduce(items_, call.op, name_of_collective(call), options_of(call));
}

void Step::broadcast(const RendezvousCall& call) {
  const int local = call.root - team_.first_replica_id();
  const bool is_here = local >= 0 && local < team_.local_replicas();
  make_items(is_here ? static_cast<std::size_t>(local) : 0, is_here ? 1 : 0);
  const int root = team_.communicator().layout().rank_of(call.root);
  // ranks compare names and `root`; but `root` is only the rank of the root replica, so the name states the replica
  const std::string name =
      call.root != 0 ? fmt::format("broadcast of replica {}", call.root) : name_of_collective(call);
  team_.broadcast(items_, root, {.order = {}, .name = name, .where = options_of(call).where});
}

void Step::merge(const RendezvousCall& call) {
  Strategy& strategy = strategy_ != nullptr ? *strategy_ : current_strategy();
  const ContextGuard guard({Mode::cross_replica, 0, &strategy, &team_, this, nullptr, thread_context().scope});
  const bool is_merge_call = call.kind == CallKind::merge_call;
  if (is_merge_call) team_.count_merge();
  try {
    call.function.call(call.function.object, arguments_->parts, strategy);
  } catch (const Error& error) {
    // an operation of a communicator has a sequence number; errors without one are found on this rank alone
    const bool others_differ =
        (error.code() == Code::mismatch || error.code() == Code::deadline_exceeded) && error.sequence() >= 0;
    if (!is_merge_call || !others_differ || team_.communicator().size() == 1) throw;
    Error advised(error.code(),
                  error.text() +
                      "; this rank was inside a merge_call: if the replicas of the ranks make a different number of "
                      "merge_call calls, the collectives in them are matched with the wrong call, or with none",
                  error.context());
    detail::PropagationMark::set(advised, detail::PropagationMark::of(error));
    throw Error(advised);
  }
}

}  // namespace lockstep
