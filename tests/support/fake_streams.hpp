// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Order on fake GPUs: streams, each run by a thread of its own with small random delays, and marks on them, which
// events are made of.

#pragma once

#include "bindings/cuda/cuda.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

namespace lockstep::test {

/// Thread-safe. The destructor waits for all work.
class FakeStreams {
 public:
  using Stream = detail::cuda::Stream;
  using Status = detail::cuda::Status;
  /// A result other than success becomes the state of the device, and no more work is done there.
  using Work = std::function<Status()>;

  /// A place on a stream that work has passed or not.
  struct Mark {
    bool is_passed = false;  // guarded by the streams' mutex
  };
  using MarkPointer = std::shared_ptr<const Mark>;

  /// `seed` 0: no delays. No wait takes longer than `timeout`.
  FakeStreams(int devices, std::uint64_t seed, std::chrono::milliseconds timeout);
  FakeStreams(const FakeStreams&) = delete;
  FakeStreams& operator=(const FakeStreams&) = delete;
  ~FakeStreams();

  [[nodiscard]] Stream create(int device);
  /// Pending work is still done. False if it is not a stream.
  [[nodiscard]] bool destroy(Stream stream);
  [[nodiscard]] std::optional<int> device_of(Stream stream) const;

  /// Work on the device.
  void submit(Stream stream, Work work);
  /// Work of the driver, in any state of the device: never delayed.
  void submit_service(Stream stream, std::function<void()> service);
  /// Work on all of `streams`, which wait for each other.
  void submit_joint(const std::vector<Stream>& streams, Work work);

  [[nodiscard]] MarkPointer mark(Stream stream);
  void hold_back(Stream stream, MarkPointer mark);
  [[nodiscard]] bool is_passed(const Mark& mark) const;
  [[nodiscard]] bool is_idle(Stream stream) const;
  /// False after a timeout, which is logged.
  [[nodiscard]] bool wait(const Mark& mark) const;
  /// Waits for all work that is on any stream now.
  [[nodiscard]] bool wait_for_all() const;

  /// The state of a device: success, or the error of its work.
  [[nodiscard]] Status state(int device) const;
  /// The next work on `device` is not done but fails with `status`.
  void fail_next_work(int device, Status status);

 private:
  struct Item {
    Work work;                      // or
    std::function<void()> service;  // or
    std::shared_ptr<Mark> mark;
  };
  struct Line {
    int device;
    std::mt19937_64 random;
    std::deque<Item> items;
    std::uint64_t submitted = 0;
    std::uint64_t done = 0;
    bool is_closing = false;
    bool has_ended = false;
    std::condition_variable called;
    std::thread worker;  // started by the first item
  };
  struct Device {
    Status state = Status::success;
    std::optional<Status> next_failure;
  };
  using LinePointer = std::shared_ptr<Line>;

  void put(const LinePointer& line, Item item);
  void serve(Line& line);
  void carry_out(Line& line, const Item& item);
  void lag(Line& line) const;
  [[nodiscard]] LinePointer find(Stream stream) const;
  [[nodiscard]] MarkPointer mark_locked(const LinePointer& line);
  void hold_back_locked(const LinePointer& line, MarkPointer mark);
  template <class Done>
  [[nodiscard]] bool wait_until(std::unique_lock<std::mutex>& lock, std::string_view what, const Done& done) const;

  const std::uint64_t seed_;
  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  mutable std::condition_variable passed_;  // notified when a mark is passed or an item is done
  std::map<Stream, LinePointer> lines_;     // guarded by mutex_, like the rest and the contents of a line
  std::vector<LinePointer> closed_;         // lines with workers that have not been joined
  std::vector<Device> devices_;
  std::uint64_t created_ = 0;
};

}  // namespace lockstep::test
