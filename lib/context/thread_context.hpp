// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The only thread-local variable of the project: the strategy, the replica and the mode of this thread.

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
  int component = 0;                  ///< index of the local copy that an update changes
  Strategy* strategy = nullptr;       ///< null if `mode` is outside
  ReplicaTeam* team = nullptr;        ///< team of `strategy`
  Step* step = nullptr;               ///< step of this thread, also inside a merge of that step
  ReplicaContext* replica = nullptr;  ///< set in a step function and in updates of the replica, null in a merge
  ScopeRecord* scope = nullptr;       ///< the innermost open scope
};

/// An open scope.
struct ScopeRecord {
  ThreadContext replaced;  ///< context outside the scope
  std::thread::id thread;  ///< thread that opened the scope
  bool ended = false;      ///< closed during a step, merge or update that began in the scope
};

/// The context of the calling thread.
[[nodiscard]] ThreadContext& thread_context() noexcept;

/// The default strategy of this thread and its team. Both are created on first use and destroyed with the thread.
struct ThreadDefault {
  std::shared_ptr<ReplicaTeam> team;
  std::shared_ptr<Strategy> strategy;  // set by get_strategy; only lib/strategy can create a strategy
};
[[nodiscard]] ThreadDefault& thread_default();

/// The strategy of the scope or step of this thread. Outside of all scopes and steps: the default strategy, which
/// `get_strategy` must have created.
[[nodiscard]] Strategy& current_strategy();

/// Leaves the innermost scopes of this thread that were closed while a step, merge or update ran inside them.
void leave_ended_scopes() noexcept;

/// Replaces the context of this thread until the end of a block.
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

/// Throws Error(failed_precondition) if `call` of the strategy of `team` is made in replica context, or in the scope of
/// another strategy.
void require_cross_replica(const ReplicaTeam& team, std::string_view call);

/// Throws Error(failed_precondition) if this thread is in the scope, step or merge of a strategy whose team is not
/// `team`.
void require_no_other_strategy(const ReplicaTeam& team, std::string_view call);

}  // namespace detail
}  // namespace lockstep
