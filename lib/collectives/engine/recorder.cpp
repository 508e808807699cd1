// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/recorder.hpp"

#include "base/fork.hpp"
#include "base/log.hpp"
#include "collectives/call/call.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <exception>
#include <type_traits>
#include <utility>

namespace lockstep::detail {
namespace {

static_assert(std::is_trivially_copyable_v<Descriptor>);

using SharedWord = std::atomic_ref<std::uint64_t>;
constexpr std::size_t most_failures = 8;

/// Number of entries if there is no flight record, but operations are measured.
constexpr std::size_t metering_entries = 512;

std::size_t rounded_up(std::size_t entries) { return entries == 0 ? 0 : std::bit_ceil(entries); }

GroupIdentity identity_for(const Transport& transport, const RecorderOptions& options) {
  return options.entries == 0 && !has_metering() ? GroupIdentity() : transport.identity();
}

/// Calls with equal keys have equal descriptions.
std::uint64_t key_of(const Descriptor& descriptor, OperationKind kind) noexcept {
  std::uint64_t key = 0xcbf29ce484222325u;
  const auto add = [&key](std::uint64_t word) {
    key = (key ^ word) * 0x100000001b3u;
    key ^= key >> 29;
  };
  for (const std::uint64_t word :
       {static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(descriptor.op),
        static_cast<std::uint64_t>(descriptor.dtype), static_cast<std::uint64_t>(descriptor.root),
        static_cast<std::uint64_t>(descriptor.items), static_cast<std::uint64_t>(descriptor.elements),
        static_cast<std::uint64_t>(descriptor.shape_rank), static_cast<std::uint64_t>(descriptor.line)})
    add(word);
  for (const std::int64_t extent : descriptor.extents) add(static_cast<std::uint64_t>(extent));
  for (const char each : std::string_view(descriptor.name.data())) add(static_cast<unsigned char>(each));
  for (const char each : std::string_view(descriptor.file.data())) add(static_cast<unsigned char>(each));
  return key;
}

/// `peer` is that of an entry. The operations of both ranks of a message have the descriptor of a send.
OperationKind described_kind(const Descriptor& descriptor, std::int32_t peer) {
  return peer >= 0 && peer % 2 != 0 ? lockstep::detail::Call::recv(peer / 2).kind : descriptor.kind;
}

std::int64_t bytes_of(const Descriptor& descriptor) {
  return descriptor.elements * static_cast<std::int64_t>(size_of(descriptor.dtype));
}

MeteredCall metered(Descriptor descriptor, OperationKind kind) {
  descriptor.kind = kind;
  MeteredCall call;
  call.kind = descriptor.traits().name;
  call.name = descriptor.name.data();
  if (descriptor.line != 0) call.place = fmt::format("{}:{}", descriptor.file.data(), descriptor.line);
  call.dtype = to_string(descriptor.dtype);
  call.elements = descriptor.elements;
  call.bytes = bytes_of(descriptor);
  descriptor.line = 0;
  call.call = describe(descriptor);
  return call;
}

}  // namespace

Recorder::Recorder(const std::string& name, const Transport& transport, const RecorderOptions& options)
    : name_(name),
      transport_(transport.name()),
      rank_(transport.rank()),
      size_(transport.size()),
      identity_(identity_for(transport, options)),
      meter_(make_meter({name_, identity_.number, identity_.job_ranks, rank_, size_, std::string(transport_)})),
      is_registered_(options.entries != 0),
      writes_after_failures_(is_registered_ && identity_.job_ranks.size() > 1),
      fork_depth_(fork_depth()),
      memory_(rounded_up(options.entries == 0 && meter_ != nullptr ? metering_entries : options.entries) *
              bytes_of_entry),
      entries_(reinterpret_cast<Entry*>(memory_.data()), memory_.size() / bytes_of_entry) {
  if (entries_.empty()) return;
  calls_ = reinterpret_cast<Call*>(memory_.data() + entries_.size_bytes());
  if (is_registered_) add_record_source(*this, options.directory);
}

Recorder::~Recorder() {
  // not in a child process: at the time of the fork another thread may have held the mutex of the registry, which then
  // stays locked for ever in the child
  if (is_registered_ && fork_depth() == fork_depth_) remove_record_source(*this);
}

void Recorder::add_call(Operation& operation) noexcept {
  const std::uint64_t number = ++last_call_;
  Call& call = calls_[number % (2 * entries_.size())];
  std::array<std::uint64_t, Call::words> words{};
  std::memcpy(words.data(), &operation.descriptor(), sizeof(Descriptor));
  SharedWord(call.number).store(0, std::memory_order_relaxed);
  for (std::size_t k = 0; k < words.size(); ++k)
    SharedWord(call.descriptor[k]).store(words[k], std::memory_order_release);
  SharedWord(call.number).store(number, std::memory_order_release);
  operation.record().call = number;
}

void Recorder::agree(Operation& operation, std::int64_t sequence) noexcept {
  if (!is_kept(operation.record().entry)) return;
  entry_of(operation.record().entry).sequence.store(sequence, std::memory_order_release);
  agree_message(operation);
}

void Recorder::finish(Operation& operation, std::int64_t sequence, const Error* error) noexcept {
  if (!is_kept(operation.record().entry)) return;
  Entry& entry = entry_of(operation.record().entry);
  entry.sequence.store(sequence, std::memory_order_release);
  entry.finished.store(time_stamp(), std::memory_order_release);
  entry.status.store(status(error), std::memory_order_release);
  if (meter_ != nullptr) measure(operation, entry);
}

void Recorder::measure_at_once(Operation& operation) noexcept {
  Entry& entry = entry_of(operation.record().entry);
  entry.finished.store(time_stamp(), std::memory_order_release);
  measure(operation, entry);
  // the calling thread has waited for the whole operation
  measure_wait(operation, entry.posted.load(std::memory_order_relaxed));
}

void Recorder::measure(Operation& operation, const Entry& entry) noexcept {
  constexpr auto relaxed = std::memory_order_relaxed;  // the entries are written under the same lock
  MeteredOperation metered;
  metered.posted = entry.posted.load(relaxed);
  metered.agreed = entry.agreed.load(relaxed);
  metered.finished = entry.finished.load(relaxed);
  metered.sequence = entry.sequence.load(relaxed);
  metered.epoch = entry.epoch.load(relaxed);
  metered.peer = entry.peer.load(relaxed);
  metered.type = metered.peer < 0 ? MeteredOperation::Type::collective : MeteredOperation::Type::message;
  const std::uint32_t status = entry.status.load(relaxed);
  if (static_cast<Stage>(status & 0xff) == Stage::failed) metered.failure = 1 + (status >> 8);
  metered.call = metered_call(operation, metered.peer);
  const Descriptor& descriptor = operation.descriptor();
  const OperationKind kind = described_kind(descriptor, metered.peer);
  meter_->add(metered, static_cast<std::size_t>(kind), traits(kind).name,
              static_cast<std::uint64_t>(bytes_of(descriptor)));
}

void Recorder::measure_wait(Operation& operation, std::uint64_t begin) noexcept {
  if (meter_ == nullptr) return;
  MeteredOperation wait;
  wait.type = MeteredOperation::Type::wait;
  wait.posted = begin;
  wait.finished = time_stamp();
  wait.call = operation.record().metered_call;
  meter_->add_wait(wait);
}

/// The number is stored in the operation, so that an operation that is used again and again is described once.
std::uint32_t Recorder::metered_call(Operation& operation, std::int32_t peer) noexcept {
  RecordPlace& place = operation.record();
  if (place.metered_call == 0) {
    const OperationKind kind = described_kind(operation.descriptor(), peer);
    place.metered_call = meter_->number_of_call(key_of(operation.descriptor(), kind),
                                                [&] { return metered(operation.descriptor(), kind); });
  }
  return place.metered_call;
}

void Recorder::post_message(Operation& operation, int peer, MessageEnd end, std::int64_t number) noexcept {
  if (!entries_.empty()) write_entry(operation, 0, number, peer, end);
}

void Recorder::agree_message(Operation& operation) noexcept {
  if (!is_kept(operation.record().entry)) return;
  Entry& entry = entry_of(operation.record().entry);
  // agree_at_once may have stored the time already
  if (entry.agreed.load(std::memory_order_relaxed) == 0) entry.agreed.store(time_stamp(), std::memory_order_release);
  entry.status.store(static_cast<std::uint32_t>(Stage::agreed), std::memory_order_release);
}

void Recorder::finish_message(Operation& operation, std::int64_t number, const Error* error) noexcept {
  finish(operation, number, error);
  if (error != nullptr) note_failure(0, number, *error);
}

void Recorder::note_failure(std::uint64_t epoch, std::int64_t sequence, const Error& error) noexcept {
  if (!is_registered_) return;
  try {
    {
      const MutexLock lock(mutex_);
      if (failures_.size() == most_failures) failures_.erase(failures_.begin() + 1);
      failures_.push_back({epoch, sequence, error.what()});
    }
    if (writes_after_failures_) write_record_after_failure(error.what());
  } catch (const std::exception& shortage) {
    log_warning("{}: cannot record a failure: {}", name_, shortage.what());
  }
}

bool Recorder::read_call(std::uint64_t number, Descriptor& descriptor) const noexcept {
  Call& call = calls_[number % (2 * entries_.size())];
  std::array<std::uint64_t, Call::words> words{};
  if (SharedWord(call.number).load(std::memory_order_acquire) != number) return false;
  for (std::size_t k = 0; k < words.size(); ++k)
    words[k] = SharedWord(call.descriptor[k]).load(std::memory_order_acquire);
  if (SharedWord(call.number).load(std::memory_order_relaxed) != number) return false;
  std::memcpy(static_cast<void*>(&descriptor), words.data(), sizeof(descriptor));
  return true;
}

bool Recorder::read_entry(std::uint64_t number, const TimeStampClock::Conversion& clock,
                          RecordedOperation& operation) const {
  const Entry& entry = entries_[number & (entries_.size() - 1)];
  constexpr auto acquire = std::memory_order_acquire;
  if (entry.number.load(acquire) != number) return false;
  const std::uint64_t posted = entry.posted.load(acquire);
  const std::uint64_t agreed = entry.agreed.load(acquire);
  const std::uint64_t finished = entry.finished.load(acquire);
  operation.sequence = entry.sequence.load(acquire);
  operation.epoch = entry.epoch.load(acquire);
  const std::uint64_t call = entry.call.load(acquire);
  const std::uint32_t status = entry.status.load(acquire);
  const std::int32_t peer = entry.peer.load(acquire);
  Descriptor descriptor;
  if (!read_call(call, descriptor) || entry.number.load(std::memory_order_relaxed) != number) return false;

  if (peer >= 0) {
    operation.peer = peer / 2;
    // the operations of both ranks have the descriptor of a send
    if (peer % 2 != 0) descriptor.kind = lockstep::detail::Call::recv(operation.peer).kind;
  }
  operation.kind = descriptor.traits().name;
  if (descriptor.traits().reduces()) operation.op = to_string(descriptor.op);
  operation.dtype = to_string(descriptor.dtype);
  operation.elements = descriptor.elements;
  operation.name = descriptor.name.data();
  operation.file = descriptor.file.data();
  operation.line = std::exchange(descriptor.line, 0);
  operation.call = describe(descriptor);
  constexpr std::array<std::string_view, 4> states{"posted", "agreed", "completed", "failed"};
  const auto stage = status & 0xff;
  operation.state = states[stage];
  if (static_cast<Stage>(stage) == Stage::failed) operation.result = to_string(static_cast<Code>(status >> 8));
  operation.posted = clock.microseconds(posted);
  if (agreed != 0) operation.agreed = clock.microseconds(agreed);
  if (finished != 0) operation.finished = clock.microseconds(finished);
  return true;
}

CommunicatorRecord Recorder::read() const {
  CommunicatorRecord record;
  record.name = name_;
  record.transport = transport_;
  record.number = identity_.number;
  record.job_ranks = identity_.job_ranks;
  record.rank = rank_;
  record.size = size_;
  record.posted = last_.load(std::memory_order_acquire);
  const auto clock = clock_.conversion();
  const std::uint64_t size = entries_.size();
  for (std::uint64_t number = record.posted > size ? record.posted - size + 1 : 1; number <= record.posted; ++number) {
    RecordedOperation operation;
    if (read_entry(number, clock, operation)) record.operations.push_back(std::move(operation));
  }
  const MutexLock lock(mutex_);
  record.failures = failures_;
  return record;
}

}  // namespace lockstep::detail
