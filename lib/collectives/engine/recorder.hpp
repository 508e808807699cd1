// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The flight record of one rank of a communicator: its last operations, with the times of their stages. An operation
// that completes at once costs one reading of the time-stamp counter and stores to one cache line.

#pragma once

#include "base/mutex.hpp"
#include "base/time_stamp.hpp"
#include "base/zero_pages.hpp"
#include "cluster/flight_record.hpp"
#include "cluster/operation_meter.hpp"
#include "collectives/engine/operation.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

struct RecorderOptions {
  std::size_t entries = 0;     ///< number of operations that are kept, rounded up to a power of two; 0: none
  std::string directory = {};  ///< directory of the record files
};

/// The two ends of a message between ranks.
enum class MessageEnd : std::uint8_t { none, send, receive };

/// Functions that write are called under the engine's lock, so there is one writer at a time. `read` may run at the
/// same time on any thread, even while another thread holds the lock for ever: it detects entries that are overwritten
/// while it reads, and leaves them out. Of the functions that write, only those that record a failure allocate memory.
class Recorder final : public RecordSource {
 public:
  /// Registers this object for write_record, unless `options.entries` is 0. Operations are measured if has_metering();
  /// then there are entries in any case.
  Recorder(const std::string& name, const Transport& transport, const RecorderOptions& options);
  ~Recorder() override;

  /// `operation` was posted. `sequence` is provisional: if the epoch ends before `operation` is complete, an operation
  /// that was posted earlier may get this number instead. `agree` and `finish` store the number that `operation` has
  /// when they are called.
  void post(Operation& operation, std::uint64_t epoch, std::int64_t sequence) noexcept {
    if (entries_.empty()) return;
    write_entry(operation, epoch, sequence, no_peer, MessageEnd::none);
  }
  /// Records that all ranks make the same call.
  void agree(Operation& operation, std::int64_t sequence) noexcept;
  void finish(Operation& operation, std::int64_t sequence, const Error* error) noexcept;
  /// Records that the last posted operation is done. Reads no time stamps: the operation took some milliseconds at
  /// most.
  void finish_at_once(Operation& operation) noexcept {
    if (entries_.empty()) return;
    const SharedError& error = operation.error();
    entry_of(operation.record().entry).status.store(status(error.get()), std::memory_order_release);
    if (meter_ != nullptr) measure_at_once(operation);
  }
  /// Whether operations are measured for LOCKSTEP_METRICS or LOCKSTEP_TRACE.
  [[nodiscard]] bool measures() const noexcept { return meter_ != nullptr; }
  /// Records that all ranks make the same call, for an operation that `finish_at_once` may follow. Does nothing if
  /// operations are not measured.
  void agree_at_once(Operation& operation) noexcept {
    if (meter_ != nullptr) agree_message(operation);
  }
  /// A thread has waited for `operation` since the time stamp `begin`. Does nothing if operations are not measured.
  void measure_wait(Operation& operation, std::uint64_t begin) noexcept;

  void post_message(Operation& operation, int peer, MessageEnd end, std::int64_t number) noexcept;
  void agree_message(Operation& operation) noexcept;
  void finish_message(Operation& operation, std::int64_t number, const Error* error) noexcept;

  /// Records the failure of operation `sequence` of `epoch`. If the failure has ended the epoch, all later operations
  /// of the epoch failed, too. If the communicator has ranks in other processes, writes the record of the process to a
  /// file.
  void note_failure(std::uint64_t epoch, std::int64_t sequence, const Error& error) noexcept;

  [[nodiscard]] CommunicatorRecord read() const override;

 private:
  enum class Stage : std::uint32_t { posted, agreed, completed, failed };
  static constexpr std::int32_t no_peer = -1;

  /// One cache line. If a reader finds the same number before and after its loads, it has read a single operation: each
  /// store is a release and each load an acquire, so a reader that sees a part of a newer operation also sees that the
  /// number has changed.
  struct alignas(64) Entry {
    std::atomic<std::uint64_t> number{0};  // number of the entry; 0: empty, or being written
    std::atomic<std::uint64_t> posted{0};  // time stamps of the stages; 0: not reached, or not recorded
    std::atomic<std::uint64_t> agreed{0};
    std::atomic<std::uint64_t> finished{0};
    std::atomic<std::int64_t> sequence{0};
    std::atomic<std::uint64_t> epoch{0};
    std::atomic<std::uint64_t> call{0};    // number of the Call that describes the operation
    std::atomic<std::uint32_t> status{0};  // Stage, and the code of the error
    std::atomic<std::int32_t> peer{0};     // 2 * rank of the peer, plus 1 if the message is received; -1: no message
  };
  static_assert(sizeof(Entry) == 64 || sizeof(Entry) == 128);

  /// The description of a call. Operations that repeat a call share its description. There are twice as many
  /// descriptions as entries, and an entry refers only to a description from the newer half of them, so a description
  /// is never overwritten before the entries that refer to it.
  struct Call {
    static constexpr std::size_t words = (sizeof(Descriptor) + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
    std::uint64_t number;  // this member and `descriptor` are accessed by atomic_ref
    std::uint64_t descriptor[words];
  };
  static constexpr std::size_t bytes_of_entry = sizeof(Entry) + 2 * sizeof(Call);

  [[nodiscard]] static std::uint32_t status(const Error* error) noexcept {
    return error == nullptr
               ? static_cast<std::uint32_t>(Stage::completed)
               : static_cast<std::uint32_t>(Stage::failed) | static_cast<std::uint32_t>(error->code()) << 8;
  }
  [[nodiscard]] Entry& entry_of(std::uint64_t number) noexcept { return entries_[number & (entries_.size() - 1)]; }
  [[nodiscard]] bool is_kept(std::uint64_t number) noexcept {
    return number != 0 && !entries_.empty() && entry_of(number).number.load(std::memory_order_relaxed) == number;
  }
  void write_entry(Operation& operation, std::uint64_t epoch, std::int64_t sequence, std::int32_t peer,
                   MessageEnd end) noexcept {
    const std::uint64_t number = last_.load(std::memory_order_relaxed) + 1;
    RecordPlace& place = operation.record();
    if (place.call == 0 || last_call_ - place.call >= entries_.size()) add_call(operation);
    const bool is_new = number <= entries_.size();
    Entry& entry = is_new ? *std::construct_at(&entry_of(number)) : entry_of(number);
    constexpr auto release = std::memory_order_release;
    entry.number.store(0, std::memory_order_relaxed);
    entry.posted.store(time_stamp(), release);
    entry.agreed.store(0, release);
    entry.finished.store(0, release);
    entry.sequence.store(sequence, release);
    entry.epoch.store(epoch, release);
    entry.call.store(place.call, release);
    entry.status.store(static_cast<std::uint32_t>(Stage::posted), release);
    entry.peer.store(peer < 0 ? no_peer : peer * 2 + (end == MessageEnd::receive ? 1 : 0), release);
    entry.number.store(number, release);
    last_.store(number, release);
    place.entry = number;
  }
  void add_call(Operation& operation) noexcept;
  [[nodiscard]] bool read_call(std::uint64_t number, Descriptor& descriptor) const noexcept;
  [[nodiscard]] bool read_entry(std::uint64_t number, const TimeStampClock::Conversion& clock,
                                RecordedOperation& operation) const;
  void measure(Operation& operation, const Entry& entry) noexcept;
  void measure_at_once(Operation& operation) noexcept;
  [[nodiscard]] std::uint32_t metered_call(Operation& operation, std::int32_t peer) noexcept;

  const std::string name_;
  const std::string_view transport_;
  const int rank_;
  const int size_;
  const GroupIdentity identity_;
  const std::shared_ptr<OperationMeter> meter_;  // null if operations are not measured
  const bool is_registered_;                     // whether the entries are part of the flight record
  const bool writes_after_failures_;
  const std::uint32_t fork_depth_;  // fork_depth() of the process that created this object
  const TimeStampClock clock_;
  const ZeroPages memory_;          // of the entries, and behind them the calls
  const std::span<Entry> entries_;  // size: 0 or a power of two; constructed when they are written
  Call* calls_ = nullptr;
  std::atomic<std::uint64_t> last_{0};  // number of the last entry
  std::uint64_t last_call_ = 0;

  mutable Mutex mutex_;
  std::vector<RecordedFailure> failures_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::detail
