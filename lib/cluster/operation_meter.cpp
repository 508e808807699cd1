// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/operation_meter.hpp"

#include "base/fork.hpp"
#include "base/never_destroyed.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

/// Adds to a counter that has one writer at a time: no atomic read-modify-write is needed.
void increase(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
  counter.store(counter.load(relaxed) + amount, relaxed);
}

struct Meters {
  Mutex mutex;
  std::vector<std::shared_ptr<OperationMeter>> list LOCKSTEP_GUARDED_BY(mutex);
  MeterTotals of_destroyed LOCKSTEP_GUARDED_BY(mutex);
};

/// Never destroyed: communicators may be created and destroyed at any time.
Meters& meters() {
  static NeverDestroyed<Meters> of_this_process;
  return *of_this_process;
}

ProcessFlag measures;
std::atomic<bool> wants_operations{false};  // whether meters have the operations, not only their totals

}  // namespace

OperationMeter::OperationMeter(MeteredGroup group, bool keeps_operations)
    : group_(std::move(group)),
      // initialized, so that no operation is the first to use a page
      ring_(keeps_operations ? std::make_unique<MeteredOperation[]>(ring_size) : nullptr) {}

std::uint32_t OperationMeter::number_of_call(std::uint64_t key, const std::function<MeteredCall()>& describe) noexcept {
  if (ring_ == nullptr) return 0;
  try {
    const MutexLock lock(mutex_);
    if (const auto found = numbers_.find(key); found != numbers_.end()) return found->second;
    if (calls_.size() == most_calls) return 0;
    calls_.push_back(describe());
    return numbers_[key] = static_cast<std::uint32_t>(calls_.size());
  } catch (const std::exception&) {  // out of memory: the operation has no description
    return 0;
  }
}

void OperationMeter::add(const MeteredOperation& operation, std::size_t kind, const std::string_view& name,
                         std::uint64_t bytes) noexcept {
  const bool is_message = operation.type == MeteredOperation::Type::message;
  std::uint64_t& last = is_message ? last_message_ : last_collective_;
  // an operation waits for earlier operations of its communicator: this time belongs to these
  const std::uint64_t begin = std::min(std::max(operation.posted, last), operation.finished);
  const std::uint64_t arrived = operation.agreed != 0 ? operation.agreed : operation.finished;
  last = std::max(last, operation.finished);
  const std::uint64_t ticks = operation.finished - begin;
  Kind& totals = kinds_[std::min(kind, most_kinds - 1)];
  totals.name.store(&name, relaxed);
  increase(totals.calls, 1);
  increase(totals.bytes, bytes);
  increase(totals.ticks, ticks);
  increase(ticks_, ticks);
  increase(waiting_ticks_, arrived > begin ? std::min(arrived - begin, ticks) : 0);
  keep(operation);
}

void OperationMeter::keep(const MeteredOperation& operation) noexcept {
  if (ring_ == nullptr) return;
  const std::uint64_t at = written_.load(relaxed);
  // acquire: the reader has copied the entry before it is written again
  if (at - read_.load(std::memory_order_acquire) == ring_size) {
    increase(dropped_, 1);
    return;
  }
  ring_[at % ring_size] = operation;
  written_.store(at + 1, std::memory_order_release);  // release: a reader that sees the number sees the entry
}

void OperationMeter::add_totals(MeterTotals& totals) const {
  for (const Kind& kind : kinds_) {
    const std::string_view* const name = kind.name.load(relaxed);
    if (name == nullptr) continue;
    OperationTotals& sum = totals.operations[std::string(*name)];
    sum.calls += kind.calls.load(relaxed);
    sum.bytes += kind.bytes.load(relaxed);
    sum.ticks += kind.ticks.load(relaxed);
  }
  totals.ticks += ticks_.load(relaxed);
  totals.waiting_ticks += waiting_ticks_.load(relaxed);
}

void OperationMeter::drain(const std::function<void(std::span<const MeteredOperation>)>& take) {
  if (ring_ == nullptr) return;
  const std::uint64_t begin = read_.load(relaxed);
  const std::uint64_t end = written_.load(std::memory_order_acquire);
  for (std::uint64_t at = begin; at < end;) {
    const std::size_t first = at % ring_size;
    const std::size_t count = std::min<std::uint64_t>(end - at, ring_size - first);
    take(std::span(ring_.get() + first, count));
    at += count;
  }
  read_.store(end, std::memory_order_release);
}

std::vector<MeteredCall> OperationMeter::new_calls() {
  const MutexLock lock(mutex_);
  std::vector<MeteredCall> calls(calls_.begin() + static_cast<std::ptrdiff_t>(calls_read_), calls_.end());
  calls_read_ = calls_.size();
  return calls;
}

void set_metering(Metering metering) noexcept {
  wants_operations.store(metering.operations, relaxed);
  measures.set(metering.totals || metering.operations);
}

bool has_metering() noexcept { return measures.is_set(); }

std::shared_ptr<OperationMeter> make_meter(MeteredGroup group) {
  if (!has_metering()) return nullptr;
  auto meter = std::make_shared<OperationMeter>(std::move(group), wants_operations.load(relaxed));
  Meters& all = meters();
  const MutexLock lock(all.mutex);
  all.list.push_back(meter);
  return meter;
}

void meters_of_this_process(std::vector<std::shared_ptr<OperationMeter>>& result) {
  Meters& all = meters();
  const MutexLock lock(all.mutex);
  result = all.list;
  std::erase_if(all.list, [&all](const auto& meter) LOCKSTEP_REQUIRES(all.mutex) {
    if (meter.use_count() > 2) return false;  // the registry, the result, and the communicator
    meter->add_totals(all.of_destroyed);
    return true;
  });
}

MeterTotals totals_of_this_process() {
  Meters& all = meters();
  const MutexLock lock(all.mutex);
  MeterTotals totals = all.of_destroyed;
  for (const auto& meter : all.list) meter->add_totals(totals);
  return totals;
}

}  // namespace lockstep::detail
