// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The one thread-local of the project: which strategy, which replica, which mode this thread is in.

#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>

namespace lockstep {

class ReplicaContext;
class ReplicaTeam;
class Step;
class Strategy;

struct ScopeRecord;

enum class Mode : std::uint8_t { outside, cross_replica, replica, update };

/// Saved and restored around every change of context.
struct ThreadContext {
  Mode mode = Mode::outside;
  int component = 0;                  ///< local copy that an update works on
  Strategy* strategy = nullptr;       ///< null outside
  ReplicaTeam* team = nullptr;        ///< team of `strategy`
  Step* step = nullptr;               ///< the step that this thread is in, also inside its merges
  ReplicaContext* replica = nullptr;  ///< set in a step function and in its own updates, null in a merge
  ScopeRecord* scope = nullptr;       ///< the innermost open scope
};

/// An open scope.
struct ScopeRecord {
  ThreadContext replaced;  ///< context outside the scope
  std::thread::id thread;  ///< thread that opened it
  bool ended = false;      ///< closed during a step, merge or update that began in it
};

/// The context of the calling thread.
[[nodiscard]] ThreadContext& thread_context() noexcept;

/// The default strategy of this thread and its team: made on first use, destroyed with the thread.
struct ThreadDefault {
  std::shared_ptr<ReplicaTeam> team;
  std::shared_ptr<Strategy> strategy;  // set by get_strategy; only lib/strategy can make one
};
[[nodiscard]] ThreadDefault& thread_default();

/// The strategy that this thread is in; outside of all the default one, if `get_strategy` has made it.
[[nodiscard]] Strategy& current_strategy();

/// Leaves the innermost scopes of this thread that were closed while a step, merge or update ran inside them.
void leave_ended_scopes() noexcept;

/// Replaces the context for a block.
class ContextGuard {
 public:
  explicit ContextGuard(const ThreadContext& context) noexcept : saved_(thread_context()) {
    thread_context() = context;
  }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;
  ~ContextGuard() {
    thread_context() = saved_;
    if (saved_.scope != nullptr) leave_ended_scopes();
  }

 private:
  ThreadContext saved_;
};

namespace detail {

/// Throws Error(failed_precondition) when `call` of `team`'s strategy is made in replica context, or in the scope of
/// another strategy.
void require_cross_replica(const ReplicaTeam& team, std::string_view call);

/// Throws Error(failed_precondition) when this thread is in the scope, step or merge of a strategy other than `team`'s.
void require_no_other_strategy(const ReplicaTeam& team, std::string_view call);

}  // namespace detail
}  // namespace lockstep
