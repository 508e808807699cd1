// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Marks in branches that are taken rarely, in special orders of events. A test counts them, and so knows which of these
// orders it has had.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

#define LOCKSTEP_EACH_MARK(MARK)                                                                   \
  /* engine */                                                                                     \
  MARK(abort_during_agreement)        /* a message aborts an operation that is executed at once */ \
  MARK(failure_of_another_rank_first) /* this rank would have given up, but another one has */     \
  MARK(communicator_lost)             /* an operation after a failure that cannot be recovered */  \
  MARK(rank_gone)                     /* this rank finds out that another one has ended or left */ \
  MARK(deadline)                      /* this rank gives up at the deadline */                     \
  MARK(recovery_again)                /* another failure arrives during recover */                 \
  MARK(calls_differ)                                                                               \
  /* epoch */                                                                                      \
  MARK(posted_after_failure)      /* the caller does not know yet that the epoch has ended */      \
  MARK(abort_after_end)           /* this rank aborts an epoch that has ended already */           \
  MARK(abort_waits_for_operation) /* an operation that others may have entered is completed */     \
  MARK(another_failure_of_node)   /* a rank of this node has published another failure */          \
  MARK(stale_transfers)           /* data of the failed operation may still arrive */              \
  /* failures of a node */                                                                         \
  MARK(claim_lost)        /* two ranks of a node publish at once */                                \
  MARK(later_epoch_ended) /* the node has gone on since */                                         \
  /* work on the memory of other ranks */                                                          \
  MARK(abandoned_before_work)                                                                      \
  MARK(abandoned_between_turns)                                                                    \
  MARK(abandoned_after_work)                                                                       \
  MARK(consumer_in_work) /* a failed rank waits for one that reads its memory */                   \
  MARK(consumer_late)                                                                              \
  MARK(consumer_ended)                                                                             \
  MARK(outputs_unshared)                                                                           \
  /* messages in the memory of a node */                                                           \
  MARK(message_has_no_room)                                                                        \
  MARK(message_left) /* the sender gives up while the receiver reads */                            \
  /* control messages */                                                                           \
  MARK(late_header) /* of an epoch that has ended */                                               \
  MARK(late_heartbeat)                                                                             \
  MARK(late_loss)                                                                                  \
  MARK(death_told) /* to the ranks of other nodes */                                               \
  /* ranks that are late */                                                                        \
  MARK(answer_while_abandoning)                                                                    \
  MARK(rank_in_earlier_epoch)                                                                      \
  MARK(rank_behind_others) /* the missing rank is named by a rank that waits for it */

enum class Mark : std::uint8_t {
#define LOCKSTEP_ENUMERATOR(name) name,
  LOCKSTEP_EACH_MARK(LOCKSTEP_ENUMERATOR)
#undef LOCKSTEP_ENUMERATOR
      count
};

/// Null except in a test, which sets it while no thread of the library runs. A global variable, since the marks of all
/// ranks and modules are counted together.
inline constinit std::atomic<void (*)(Mark) noexcept> mark_hook{nullptr};

/// Costs a load, in branches that are taken rarely. Thread-safe.
inline void reached(Mark mark) noexcept {
  if (auto* const hook = mark_hook.load(std::memory_order_relaxed)) hook(mark);
}

}  // namespace lockstep::detail
