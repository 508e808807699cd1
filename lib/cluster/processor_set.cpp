// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/processor_set.hpp"

#include <fmt/format.h>

#include <sched.h>

#include <cstddef>
#include <memory>

namespace lockstep::detail {

ProcessorSet allowed_processors() noexcept {
  ProcessorSet result;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(most_processors),
                                                             [](cpu_set_t* s) { CPU_FREE(s); });
  const std::size_t bytes = CPU_ALLOC_SIZE(most_processors);
  if (set == nullptr || sched_getaffinity(0, bytes, set.get()) != 0) return result;
  for (std::size_t cpu = 0; cpu < most_processors; ++cpu) {
    if (CPU_ISSET_S(cpu, bytes, set.get())) result.set(cpu);
  }
  return result;
}

std::vector<int> numbers_of(const ProcessorSet& set) {
  std::vector<int> numbers;
  for (std::size_t cpu = 0; cpu < most_processors; ++cpu) {
    if (set.test(cpu)) numbers.push_back(static_cast<int>(cpu));
  }
  return numbers;
}

ProcessorSet set_of(const std::vector<int>& numbers) {
  ProcessorSet set;
  for (const int number : numbers) {
    if (number >= 0 && static_cast<std::size_t>(number) < most_processors) set.set(static_cast<std::size_t>(number));
  }
  return set;
}

std::string to_string(const ProcessorSet& set) {
  std::string text;
  const std::vector<int> numbers = numbers_of(set);
  for (std::size_t begin = 0; begin < numbers.size();) {
    std::size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += text.empty() ? "" : ",";
    text +=
        end - begin == 1 ? fmt::format("{}", numbers[begin]) : fmt::format("{}-{}", numbers[begin], numbers[end - 1]);
    begin = end;
  }
  return text.empty() ? "none" : text;
}

}  // namespace lockstep::detail
