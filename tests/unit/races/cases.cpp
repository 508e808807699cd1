// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "races/cases.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

/// On the heap, where each case gets new memory: the own stack is not looked at.
struct Shared {
  int value = 0;
  std::atomic<int> flag{0};
  std::atomic<int> other{0};
  std::mutex mutex;
  std::array<std::uint8_t, 8> bytes{};
};

struct Made {
  int value = 7;
  std::array<std::uint8_t, 8192> rest;  // more than what a thread keeps of its own memory
};

int made_once() {
  static const auto made = std::make_unique<Made>();
  return made->value;
}

}  // namespace

int pass_value(std::memory_order store, std::memory_order load, bool fences) {
  const auto shared = std::make_unique<Shared>();
  int seen = 0;
  {
    std::jthread writer([&, s = shared.get()] {
      s->value = 42;
      if (fences) std::atomic_thread_fence(store);
      s->flag.store(1, fences ? std::memory_order_relaxed : store);
    });
    std::jthread reader([&, s = shared.get()] {
      while (s->flag.load(fences ? std::memory_order_relaxed : load) == 0) std::this_thread::yield();
      if (fences) std::atomic_thread_fence(load);
      seen = s->value;
    });
  }
  return seen;
}

int pass_value_through_relaxed_increment() {
  const auto shared = std::make_unique<Shared>();
  int seen = 0;
  {
    std::jthread writer([s = shared.get()] {
      s->value = 42;
      s->flag.store(1, std::memory_order_release);
    });
    std::jthread increases([s = shared.get()] {
      int expected = 1;
      while (!s->flag.compare_exchange_weak(expected, 2, std::memory_order_relaxed)) {
        expected = 1;
        std::this_thread::yield();
      }
    });
    std::jthread reader([&seen, s = shared.get()] {
      while (s->flag.load(std::memory_order_acquire) != 2) std::this_thread::yield();
      seen = s->value;
    });
  }
  return seen;
}

std::pair<int, int> store_and_load(std::memory_order store, std::memory_order load) {
  const auto shared = std::make_unique<Shared>();
  std::pair<int, int> seen;
  {
    std::jthread one([&, s = shared.get()] {
      s->flag.store(1, store);
      seen.first = s->other.load(load);
    });
    std::jthread two([&, s = shared.get()] {
      s->other.store(1, store);
      seen.second = s->flag.load(load);
    });
  }
  return seen;
}

int load_after_another_thread() {
  const auto shared = std::make_unique<Shared>();
  int seen = 0;
  {
    std::jthread writer([s = shared.get()] { s->other.store(1, std::memory_order_relaxed); });
    std::jthread reads_first([s = shared.get()] {
      while (s->other.load(std::memory_order_relaxed) != 1) std::this_thread::yield();
      s->flag.store(1, std::memory_order_release);
    });
    std::jthread reads_then([&seen, s = shared.get()] {
      while (s->flag.load(std::memory_order_acquire) != 1) std::this_thread::yield();
      seen = s->other.load(std::memory_order_relaxed);
    });
  }
  return seen;
}

std::pair<int, int> store_and_load_with_fences() {
  const auto shared = std::make_unique<Shared>();
  std::pair<int, int> seen;
  {
    std::jthread one([&, s = shared.get()] {
      s->flag.store(1, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      seen.first = s->other.load(std::memory_order_relaxed);
    });
    std::jthread two([&, s = shared.get()] {
      s->other.store(1, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      seen.second = s->flag.load(std::memory_order_relaxed);
    });
  }
  return seen;
}

bool enter_twice() {
  const auto shared = std::make_unique<Shared>();
  {
    const auto enter = [s = shared.get()] {
      for (int k = 0; k < 3; ++k) {
        int expected = 0;
        while (!s->flag.compare_exchange_strong(expected, 1, std::memory_order_acquire, std::memory_order_relaxed)) {
          expected = 0;
          std::this_thread::yield();
        }
        if (++s->value != 1) s->bytes[0] = 1;
        std::this_thread::yield();
        --s->value;
        s->flag.store(0, std::memory_order_release);
      }
    };
    std::jthread one(enter);
    std::jthread two(enter);
  }
  return shared->bytes[0] != 0;
}

int pass_value_by_fences_alone() {
  const auto shared = std::make_unique<Shared>();
  int seen = 0;
  {
    std::jthread writer([s = shared.get()] {
      s->value = 42;
      std::atomic_thread_fence(std::memory_order_seq_cst);
    });
    std::jthread reader([&seen, s = shared.get()] {
      std::this_thread::sleep_for(1ms);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      seen = s->value;
    });
  }
  return seen;
}

bool goes_back() {
  const auto shared = std::make_unique<Shared>();
  bool has_gone_back = false;
  {
    std::jthread writer([s = shared.get()] {
      for (int k = 1; k < 50; ++k) {
        s->flag.store(k, std::memory_order_relaxed);
        if (k % 4 == 0) std::this_thread::yield();
      }
    });
    std::jthread reader([&has_gone_back, s = shared.get()] {
      int last = 0;
      for (int k = 0; k < 100; ++k) {
        const int now = s->flag.load(std::memory_order_relaxed);
        has_gone_back = has_gone_back || now < last;
        last = now;
        if (k % 3 == 0) std::this_thread::yield();
      }
    });
  }
  return has_gone_back;
}

int change_number(bool is_locked) {
  const auto shared = std::make_unique<Shared>();
  {
    const auto change = [is_locked, s = shared.get()] {
      for (int k = 0; k < 10; ++k) {
        std::unique_lock lock(s->mutex, std::defer_lock);
        if (is_locked) lock.lock();
        ++s->value;
        if (k % 2 == 0) std::this_thread::yield();
      }
    };
    std::jthread one(change);
    std::jthread two(change);
  }
  return shared->value;
}

bool uses_memory_again() {
  std::array<std::uintptr_t, 2> addresses{};
  {
    const auto use = [&addresses](std::size_t thread) {
      std::this_thread::sleep_for(1ms * (thread + 1));
      auto made = std::make_unique<Made>();
      made->value = 1;
      addresses[thread] = reinterpret_cast<std::uintptr_t>(made.get());
    };
    std::jthread one(use, 0);
    std::jthread two(use, 1);
  }
  return addresses[0] == addresses[1];
}

bool uses_memory_of_exceptions_again() {
  std::array<std::uintptr_t, 2> addresses{};
  {
    const auto use = [&addresses](std::size_t thread) {
      std::this_thread::sleep_for(1ms * (thread + 1));
      try {
        throw Made();
      } catch (Made& made) {
        made.value = 1;
        addresses[thread] = reinterpret_cast<std::uintptr_t>(&made);
      }
    };
    std::jthread one(use, 0);
    std::jthread two(use, 1);
  }
  return addresses[0] == addresses[1];
}

int free_while_read() {
  int seen = 0;
  auto made = std::make_unique<Made>();
  {
    std::jthread reader([&seen, m = made.get()] { seen = m->value; });
    std::jthread frees([&made] {
      std::this_thread::sleep_for(1ms);
      made.reset();
    });
  }
  return seen;
}

int use_static_variable() {
  std::array<int, 2> seen{};
  {
    std::jthread one([&seen] { seen[0] = made_once(); });
    std::jthread two([&seen] { seen[1] = made_once(); });
  }
  return seen[0] + seen[1];
}

int write_neighbours() {
  const auto shared = std::make_unique<Shared>();
  {
    std::jthread one([s = shared.get()] { s->bytes[2] = 1; });
    std::jthread two([s = shared.get()] { s->bytes[3] = 1; });
  }
  return shared->bytes[2] + shared->bytes[3];
}

}  // namespace lockstep::test
