// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Order on GPUs that are not there: streams, each carried out by a thread of its own, late by a little that chance
// says; and marks on them, of which events are made.

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

/// Thread-safe. The end waits for all work.
class FakeStreams {
 public:
  using Stream = detail::cuda::Stream;
  using Status = detail::cuda::Status;
  /// What is no success is from then on the state of the device, and nothing more is done there.
  using Work = std::function<Status()>;

  /// A place on a stream that is passed or not.
  struct Mark {
    bool is_passed = false;  // guarded by the streams' mutex
  };
  using MarkPointer = std::shared_ptr<const Mark>;

  /// `seed` 0: nothing is late. No wait takes longer than `patience`.
  FakeStreams(int devices, std::uint64_t seed, std::chrono::milliseconds patience);
  FakeStreams(const FakeStreams&) = delete;
  FakeStreams& operator=(const FakeStreams&) = delete;
  ~FakeStreams();

  [[nodiscard]] Stream create(int device);
  /// What is on it is still done. False where it is no stream.
  [[nodiscard]] bool destroy(Stream stream);
  [[nodiscard]] std::optional<int> device_of(Stream stream) const;

  /// What work does on the device.
  void submit(Stream stream, Work work);
  /// What the driver does, be the device in whatever state: never late.
  void submit_service(Stream stream, std::function<void()> service);
  /// Work that is on all of `streams`, which wait for each other.
  void submit_joint(const std::vector<Stream>& streams, Work work);

  [[nodiscard]] MarkPointer mark(Stream stream);
  void hold_back(Stream stream, MarkPointer mark);
  [[nodiscard]] bool is_passed(const Mark& mark) const;
  [[nodiscard]] bool is_idle(Stream stream) const;
  /// False when it was not passed in time, which is written to the log.
  [[nodiscard]] bool wait(const Mark& mark) const;
  /// Waits for all that is on any stream now.
  [[nodiscard]] bool wait_for_all() const;

  /// The state of a device: success, or what its work failed with.
  [[nodiscard]] Status state(int device) const;
  /// The next work on `device` is not done, but fails so.
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
  const std::chrono::milliseconds patience_;
  mutable std::mutex mutex_;
  mutable std::condition_variable passed_;  // a mark was, or an item is done
  std::map<Stream, LinePointer> lines_;     // all guarded by mutex_, as is what is in a line
  std::vector<LinePointer> closed_;         // whose workers have not been joined
  std::vector<Device> devices_;
  std::uint64_t created_ = 0;
};

}  // namespace lockstep::test
