// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An all-to-all exchange in rounds. Member m of n members has one block for each member; block j is for member
// (m + j) mod n. Write j in base `radix`. In round d, the member sends all blocks whose digit d is z to member
// (m + z radix^d) mod n, for z = 1 ... radix-1, and keeps the blocks that it receives under the same numbers. After the
// last round, block j is the block that member (m - j) mod n had for member m. Any number of members is possible.
//
// There are ceil(log n / log radix) rounds, of at most radix-1 messages; each block is sent once per digit that is not
// zero. With radix n, every member sends one message to each other member. Bruck, Ho, Kipnis, Upfal, Weathersby:
// Efficient algorithms for all-to-all communications in multiport message-passing systems (1997).

#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lockstep::detail {

/// One round. Message z, 1 <= z <= messages, goes to the member that is z * weight further. Its blocks are runs of
/// `weight` consecutive blocks; the first run begins at block z * weight, and each further one `stride` blocks later.
struct DigitRound {
  int members = 1;
  int weight = 1;
  int stride = 1;
  int messages = 0;

  /// Calls `use(block)` for the blocks of message `message`, in the order that they have in it.
  template <class Use>
  void for_each_block(int message, const Use& use) const {
    for (int run = message * weight; run < members; run += stride) {
      for (int block = run; block < std::min(run + weight, members); ++block) use(block);
    }
  }
  [[nodiscard]] int block_count(int message) const {
    int count = 0;
    for (int run = message * weight; run < members; run += stride) count += std::min(weight, members - run);
    return count;
  }
};

/// The rounds for `members` >= 1 and `radix` >= 2; none for one member.
[[nodiscard]] std::vector<DigitRound> digit_rounds(int members, int radix);

/// The radix, 2 to `members`, with the lowest time by the rates of a default CostParameters, if each block has
/// `block_bytes` bytes. It depends on nothing else, so that all members choose the same one.
[[nodiscard]] int all_to_all_radix(int members, std::size_t block_bytes);

}  // namespace lockstep::detail
