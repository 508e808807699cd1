// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Small cases one by one, not at random: a body asks for choices, and is run once for each sequence of them. Which
// choices there are may follow from the ones before.

#pragma once

#include <cassert>
#include <cstddef>
#include <limits>
#include <vector>

namespace lockstep::test {

class EveryChoice {
 public:
  static constexpr int any_number = std::numeric_limits<int>::max();

  /// At most `most` choices of a sequence are not 0. With choices between threads, where 0 is the thread that ran
  /// before, these are preemptions (Musuvathi, Qadeer 2007: most defects need few of them).
  explicit EveryChoice(int most = any_number) : most_(most) {}

  /// A number from 0 to `count` - 1. With the same results before, `count` must be the same, too.
  [[nodiscard]] std::size_t below(std::size_t count) {
    if (made_ == choices_.size()) choices_.push_back({count, 0});
    const Choice& choice = choices_[made_++];
    assert(choice.count == count);
    return choice.taken;
  }

  /// Ends a sequence, and begins the next one. Returns false if there is none.
  [[nodiscard]] bool next() {
    assert(made_ == choices_.size());
    made_ = 0;
    for (; !choices_.empty(); choices_.pop_back()) {
      Choice& last = choices_.back();
      const int others = not_zero_ - (last.taken == 0 ? 0 : 1);
      if (last.taken + 1 < last.count && others < most_) {
        ++last.taken;
        not_zero_ = others + 1;
        return true;
      }
      not_zero_ = others;
    }
    return false;
  }

 private:
  struct Choice {
    std::size_t count;
    std::size_t taken;
  };
  std::vector<Choice> choices_;  // of the present sequence
  std::size_t made_ = 0;
  int not_zero_ = 0;  // of choices_
  int most_;
};

}  // namespace lockstep::test
