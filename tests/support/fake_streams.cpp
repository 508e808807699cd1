// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_streams.hpp"

#include "base/log.hpp"
#include "support/fake_handles.hpp"

#include <utility>

namespace lockstep::test {

FakeStreams::FakeStreams(int devices, std::uint64_t seed, std::chrono::milliseconds timeout)
    : seed_(seed), timeout_(timeout), devices_(static_cast<std::size_t>(devices)) {}

FakeStreams::~FakeStreams() {
  std::vector<LinePointer> all;
  {
    const std::scoped_lock lock(mutex_);
    all = closed_;
    for (const auto& [stream, line] : lines_) all.push_back(line);
    for (const LinePointer& line : all) {
      line->is_closing = true;
      line->called.notify_one();
    }
  }
  for (const LinePointer& line : all) {
    if (line->worker.joinable()) line->worker.join();
  }
}

FakeStreams::Stream FakeStreams::create(int device) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(closed_, [](const LinePointer& line) {
    if (line->worker.joinable() && !line->has_ended) return false;
    if (line->worker.joinable()) line->worker.join();
    return true;
  });
  const Stream stream = new_handle();
  const auto line = std::make_shared<Line>();
  line->device = device;
  line->random.seed(seed_ + ++created_);
  lines_.emplace(stream, line);
  return stream;
}

bool FakeStreams::destroy(Stream stream) {
  const std::scoped_lock lock(mutex_);
  const auto found = lines_.find(stream);
  if (found == lines_.end()) return false;
  found->second->is_closing = true;
  found->second->called.notify_one();
  closed_.push_back(found->second);
  lines_.erase(found);
  return true;
}

std::optional<int> FakeStreams::device_of(Stream stream) const {
  const std::scoped_lock lock(mutex_);
  const LinePointer line = find(stream);
  return line ? std::optional(line->device) : std::nullopt;
}

void FakeStreams::submit(Stream stream, Work work) {
  const std::scoped_lock lock(mutex_);
  put(find(stream), {.work = std::move(work)});
}

void FakeStreams::submit_service(Stream stream, std::function<void()> service) {
  const std::scoped_lock lock(mutex_);
  put(find(stream), {.service = std::move(service)});
}

void FakeStreams::submit_joint(const std::vector<Stream>& streams, Work work) {
  const std::scoped_lock lock(mutex_);
  const LinePointer first = find(streams.front());
  for (const Stream stream : streams) {
    if (stream != streams.front()) hold_back_locked(first, mark_locked(find(stream)));
  }
  put(first, {.work = std::move(work)});
  const MarkPointer end = mark_locked(first);
  for (const Stream stream : streams) {
    if (stream != streams.front()) hold_back_locked(find(stream), end);
  }
}

FakeStreams::MarkPointer FakeStreams::mark(Stream stream) {
  const std::scoped_lock lock(mutex_);
  return mark_locked(find(stream));
}

FakeStreams::MarkPointer FakeStreams::mark_locked(const LinePointer& line) {
  auto mark = std::make_shared<Mark>();
  put(line, {.mark = mark});
  return mark;
}

void FakeStreams::hold_back(Stream stream, MarkPointer mark) {
  const std::scoped_lock lock(mutex_);
  hold_back_locked(find(stream), std::move(mark));
}

void FakeStreams::hold_back_locked(const LinePointer& line, MarkPointer mark) {
  put(line, {.service = [this, mark = std::move(mark)] { static_cast<void>(wait(*mark)); }});
}

bool FakeStreams::is_passed(const Mark& mark) const {
  const std::scoped_lock lock(mutex_);
  return mark.is_passed;
}

bool FakeStreams::is_idle(Stream stream) const {
  const std::scoped_lock lock(mutex_);
  const LinePointer line = find(stream);
  return line->done == line->submitted;
}

bool FakeStreams::wait(const Mark& mark) const {
  std::unique_lock lock(mutex_);
  return wait_until(lock, "an event", [&] { return mark.is_passed; });
}

bool FakeStreams::wait_for_all() const {
  std::unique_lock lock(mutex_);
  bool all_in_time = true;
  std::vector<std::pair<LinePointer, std::uint64_t>> ends;
  for (const auto& [stream, line] : lines_) ends.emplace_back(line, line->submitted);
  for (const LinePointer& line : closed_) ends.emplace_back(line, line->submitted);
  for (const auto& end : ends) {
    all_in_time &= wait_until(lock, "all work", [&end] { return end.first->done >= end.second; });
  }
  return all_in_time;
}

FakeStreams::Status FakeStreams::state(int device) const {
  const std::scoped_lock lock(mutex_);
  return devices_[static_cast<std::size_t>(device)].state;
}

void FakeStreams::fail_next_work(int device, Status status) {
  const std::scoped_lock lock(mutex_);
  devices_[static_cast<std::size_t>(device)].next_failure = status;
}

void FakeStreams::put(const LinePointer& line, Item item) {
  line->items.push_back(std::move(item));
  ++line->submitted;
  if (!line->worker.joinable()) {
    line->worker = std::thread([this, line] { serve(*line); });
  }
  line->called.notify_one();
}

void FakeStreams::serve(Line& line) {
  std::unique_lock lock(mutex_);
  for (;;) {
    line.called.wait(lock, [&] { return !line.items.empty() || line.is_closing; });
    if (line.items.empty()) break;
    Item item = std::move(line.items.front());
    line.items.pop_front();
    lock.unlock();
    carry_out(line, item);
    const auto mark = std::exchange(item, {}).mark;  // its resources are released before it is seen to be done
    lock.lock();
    ++line.done;
    if (mark) mark->is_passed = true;
    passed_.notify_all();
  }
  line.has_ended = true;
}

void FakeStreams::carry_out(Line& line, const Item& item) {
  if (item.service) item.service();
  if (!item.work) return;
  lag(line);
  Status status = Status::success;
  {
    const std::scoped_lock lock(mutex_);
    Device& device = devices_[static_cast<std::size_t>(line.device)];
    if (device.state != Status::success) return;
    if (device.next_failure) status = *std::exchange(device.next_failure, std::nullopt);
  }
  if (status == Status::success) status = item.work();
  if (status == Status::success) return;
  const std::scoped_lock lock(mutex_);
  Device& device = devices_[static_cast<std::size_t>(line.device)];
  if (device.state == Status::success) device.state = status;
}

// half of the work at once, the rest within 200 us, and sometimes very late
void FakeStreams::lag(Line& line) const {
  if (seed_ == 0) return;
  const std::uint64_t chance = line.random() % 128;
  if (chance == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  } else if (chance < 64) {
    std::this_thread::sleep_for(std::chrono::microseconds(line.random() % 200));
  }
}

FakeStreams::LinePointer FakeStreams::find(Stream stream) const {
  const auto found = lines_.find(stream);
  return found == lines_.end() ? nullptr : found->second;
}

template <class Done>
bool FakeStreams::wait_until(std::unique_lock<std::mutex>& lock, std::string_view what, const Done& done) const {
  if (passed_.wait_for(lock, timeout_, done)) return true;
  detail::log_warning("a fake GPU waited {} ms for {}, and goes on without it", timeout_.count(), what);
  return false;
}

}  // namespace lockstep::test
