// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which accesses the shadow of memory calls a race, compared with a list of all accesses to each byte.

#include "races/shadow.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace lockstep::test {
namespace {

using races::Access;
using races::Shadow;
using races::VectorClock;

class Model {
 public:
  explicit Model(std::size_t bytes) : accesses_(bytes) {}

  struct Found {
    bool any = false;     // the access is in a race with an earlier one
    bool is_new = false;  // and no access of this kind in the same step has been
  };

  /// Notes the access.
  Found note(std::size_t first, std::size_t bytes, const Access& access, const VectorClock& clock) {
    Found found;
    for (std::size_t byte = first; byte < first + bytes; ++byte) {
      std::vector<Access>& formers = accesses_[byte];
      const bool has_race = std::any_of(formers.begin(), formers.end(), [&](const Access& former) {
        return former.thread() != access.thread() && !clock.has(former.step()) &&
               (former.is_write() || access.is_write()) && !(former.is_atomic() && access.is_atomic());
      });
      found.any = found.any || has_race;
      found.is_new =
          found.is_new || (has_race && std::none_of(formers.begin(), formers.end(), [&](const Access& former) {
                             return former.has_same_kind_and_step(access);
                           }));
      formers.push_back(access);
    }
    return found;
  }
  void forget(std::size_t first, std::size_t bytes) {
    for (std::size_t byte = first; byte < first + bytes; ++byte) accesses_[byte].clear();
  }

 private:
  std::vector<std::vector<Access>> accesses_;  // by byte
};

TEST(AShadow, tells_the_races_that_a_list_of_all_accesses_tells) {
  constexpr std::uintptr_t base = 0x7f0000000000;
  constexpr std::size_t bytes = 2048;
  constexpr int threads = 4;
  std::size_t races = 0;
  std::size_t accesses = 0;
  Shadow shadow;
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t count) { return static_cast<std::size_t>(random()) % count; };
    shadow.clear();
    Model model(bytes);
    std::vector<VectorClock> clocks(threads);
    for (int thread = 0; thread < threads; ++thread) clocks[static_cast<std::size_t>(thread)].advance(thread);
    for (int i = 0; i < 400; ++i) {
      const std::size_t number = below(threads);
      const int thread = static_cast<int>(number);
      VectorClock& clock = clocks[number];
      if (below(3) == 0) {  // what another thread has done up to now comes before what this one does from now on
        const std::size_t other = below(threads);
        clock.join(VectorClock(clocks[other]));
        clocks[other].advance(static_cast<int>(other));
      }
      // parts of a granule, of a block, and several whole blocks
      const std::size_t longest = std::vector<std::size_t>{8, 64, 1536}[below(3)];
      std::size_t first = below(bytes);
      std::size_t count = std::min(1 + below(longest), bytes - first);
      if (below(4) == 0) {
        first -= first % 512;
        count = std::min((count + 511) / 512 * 512, bytes - first);
      }
      if (below(20) == 0) {
        first -= first % Shadow::granule_bytes;
        count = (count + Shadow::granule_bytes - 1) / Shadow::granule_bytes * Shadow::granule_bytes;
        shadow.forget(base + first, count);
        model.forget(first, count);
        continue;
      }
      const Access access({thread, clock.of(thread)}, nullptr, below(2) == 0, below(4) == 0);
      bool has_race = false;
      shadow.note(base + first, count, access, clock, [&](const Access& former) {
        has_race = true;
        EXPECT_FALSE(clock.has(former.step()));
      });
      const Model::Found expected = model.note(first, count, access, clock);
      ASSERT_TRUE(has_race ? expected.any : !expected.is_new) << "seed " << seed << ", access " << i;
      ++accesses;
      races += has_race ? 1U : 0U;
    }
  }
  EXPECT_GT(races, accesses / 10);
  EXPECT_LT(races, accesses / 10 * 9);
}

}  // namespace
}  // namespace lockstep::test
