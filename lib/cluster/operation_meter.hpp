// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What the communicators of this process measure for LOCKSTEP_METRICS and LOCKSTEP_TRACE: totals by kind of operation,
// and the times of each operation. This module does not depend on communicators: each of them gets a meter here.

#pragma once

#include "base/mutex.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// The communicator of a meter.
struct MeteredGroup {
  std::string name;
  std::uint64_t number = 0;    ///< identifies the communicator, together with `job_ranks`
  std::vector<int> job_ranks;  ///< job rank of each rank; empty if the ranks are threads of this process
  int rank = 0;
  int size = 1;
  std::string transport = {};  ///< see Communicator::transport
};

/// The description of a call, which many operations share.
struct MeteredCall {
  std::string kind;
  std::string call;   ///< text of the call, as in errors, without file and line
  std::string name;   ///< name given by the caller
  std::string place;  ///< "file:line"; empty: unknown
  std::string dtype;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;  ///< of one replica, by the dtype of the first tensor
};

/// One operation that is done, or one wait of a thread for an operation. Trivially copyable: trace files store it as
/// bytes.
struct MeteredOperation {
  enum class Type : std::uint32_t { collective, message, wait };
  std::uint64_t posted = 0;  ///< time stamps; of a wait: its begin
  std::uint64_t agreed = 0;  ///< 0: the ranks did not agree, or a wait
  std::uint64_t finished = 0;
  std::int64_t sequence = -1;  ///< number in the epoch; of a message: per sender and receiver
  std::uint64_t epoch = 0;
  std::uint32_t call = 0;  ///< number of the MeteredCall, from 1; 0: not described
  std::int32_t peer = -1;  ///< of a message: 2 * rank of the peer, plus 1 if the message is received
  Type type = Type::collective;
  std::uint32_t failure = 0;  ///< 0: success; otherwise 1 + the code of the error
};
static_assert(sizeof(MeteredOperation) == 56);

/// Totals of one kind of operation.
struct OperationTotals {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  std::uint64_t ticks = 0;  ///< of the time-stamp counter
};

/// Totals of all communicators of this process.
struct MeterTotals {
  std::map<std::string, OperationTotals, std::less<>> operations;  ///< by kind
  std::uint64_t ticks = 0;          ///< time of all operations; a communicator counts the time once if two overlap
  std::uint64_t waiting_ticks = 0;  ///< the part of it before all ranks had arrived
};

/// The meter of one communicator. One thread at a time adds: the thread that holds the engine's lock. Adding allocates
/// no memory, makes no system call and takes no lock. If the reader is too slow, operations are left out of the trace
/// and counted; the totals stay exact.
class OperationMeter {
 public:
  /// Number of operations that wait for the reader at most.
  static constexpr std::size_t ring_size = std::size_t{1} << 15;
  static constexpr std::size_t most_calls = 4096;
  static constexpr std::size_t most_kinds = 32;

  OperationMeter(MeteredGroup group, bool keeps_operations);

  /// The number of the call with this `key`; `describe` is called for the first operation of each call. 0 if there are
  /// too many different calls, or if operations are not kept.
  [[nodiscard]] std::uint32_t number_of_call(std::uint64_t key, const std::function<MeteredCall()>& describe) noexcept;

  /// Adds an operation that is done. `kind` is a number below most_kinds, and `name` its name, which is never
  /// destroyed.
  void add(const MeteredOperation& operation, std::size_t kind, const std::string_view& name,
           std::uint64_t bytes) noexcept;
  /// Adds a wait of a thread.
  void add_wait(const MeteredOperation& wait) noexcept { keep(wait); }

  // The following functions are called by the reader.

  void add_totals(MeterTotals& totals) const;
  /// Removes all operations from the ring, and passes them to `take` in parts.
  void drain(const std::function<void(std::span<const MeteredOperation>)>& take);
  /// The calls that were described since the last call of this function, in the order of their numbers.
  [[nodiscard]] std::vector<MeteredCall> new_calls();
  /// Number of operations that did not fit into the ring.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }
  [[nodiscard]] const MeteredGroup& group() const noexcept { return group_; }

 private:
  struct Kind {
    std::atomic<const std::string_view*> name{nullptr};
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> ticks{0};
  };
  void keep(const MeteredOperation& operation) noexcept;

  const MeteredGroup group_;
  std::unique_ptr<MeteredOperation[]> ring_;  // null if operations are not kept
  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> read_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::array<Kind, most_kinds> kinds_;
  std::atomic<std::uint64_t> ticks_{0};
  std::atomic<std::uint64_t> waiting_ticks_{0};
  std::uint64_t last_collective_ = 0;  // time stamp of the end of the last collective
  std::uint64_t last_message_ = 0;

  Mutex mutex_;
  std::map<std::uint64_t, std::uint32_t> numbers_ LOCKSTEP_GUARDED_BY(mutex_);
  std::vector<MeteredCall> calls_ LOCKSTEP_GUARDED_BY(mutex_);
  std::size_t calls_read_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
};

/// What the communicators that are created from now on measure.
struct Metering {
  bool totals = false;
  bool operations = false;
};
void set_metering(Metering metering) noexcept;

/// Whether communicators that are created now get a meter. Thread-safe, one load.
[[nodiscard]] bool has_metering() noexcept;

/// A meter for a new communicator; null if nothing is measured. Thread-safe.
[[nodiscard]] std::shared_ptr<OperationMeter> make_meter(MeteredGroup group);

/// Stores the meters of this process in `result`, for the reader. A meter whose communicator has been destroyed is
/// there once more: afterwards only its totals are kept.
void meters_of_this_process(std::vector<std::shared_ptr<OperationMeter>>& result);
/// Totals of all communicators, including those that were destroyed.
[[nodiscard]] MeterTotals totals_of_this_process();

}  // namespace lockstep::detail
