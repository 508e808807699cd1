// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/reproducible.hpp>

#include <lockstep/collectives/detail/propagate.hpp>

#include "base/check.hpp"
#include "collectives/internal_call.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lockstep::reproducible {
namespace {

constexpr std::int64_t block_elements = 64;
constexpr std::size_t most_shared = block_elements - 1;  // terms of a block that the rank shares with other ranks
constexpr std::size_t most_nodes = 2 * 57;               // nodes over the blocks of one rank

using Terms = std::array<double, block_elements>;

/// The sum of the terms of a block, in an order that vector registers follow without shuffles.
double sum_of(Terms& terms) {
  for (std::size_t width = block_elements / 2; width > 0; width /= 2) {
    for (std::size_t k = 0; k < width; ++k) terms[k] += terms[k + width];
  }
  return terms.front();
}

/// A binary tree over blocks. Nodes are added from block 0 on, and joined as soon as both halves of a larger node are
/// there: the nodes that are left correspond to the binary digits of the number of blocks.
class Tree {
 public:
  /// Adds the node over the next 2^level blocks. The number of blocks before must be a multiple of 2^level.
  void add(int level, double value) {
    std::int64_t first = blocks_;
    blocks_ += std::int64_t{1} << level;
    for (; (first >> level & 1) != 0; ++level) {
      value = nodes_.back() + value;
      nodes_.pop_back();
      first -= std::int64_t{1} << level;
    }
    nodes_.push_back(value);
  }
  /// The sum of all blocks.
  [[nodiscard]] double sum() const {
    if (nodes_.empty()) return 0;
    double sum = nodes_.back();
    for (std::size_t k = nodes_.size() - 1; k-- > 0;) sum = nodes_[k] + sum;
    return sum;
  }

 private:
  std::vector<double> nodes_;
  std::int64_t blocks_ = 0;
};

/// What a rank tells the others about its part: the terms of blocks that it shares with other ranks, and the nodes of
/// the tree that cover its own blocks, from left to right. The numbers of terms and nodes follow from the range.
struct Part {
  std::int64_t first = 0;  ///< index of the first element
  std::int64_t last = 0;   ///< one past the index of the last element
  std::array<double, most_shared> head{};
  std::array<double, most_shared> tail{};
  std::array<double, most_nodes> nodes{};

  /// The end of the terms in `head`: of the first block, if it does not begin with this part.
  [[nodiscard]] std::int64_t head_end() const noexcept {
    return std::min(last, (first + block_elements - 1) / block_elements * block_elements);
  }
  /// The begin of the terms in `tail`.
  [[nodiscard]] std::int64_t tail_begin() const noexcept {
    return std::max(head_end(), last / block_elements * block_elements);
  }
};
static_assert(std::is_trivially_copyable_v<Part> && sizeof(Part) % sizeof(std::int64_t) == 0);
constexpr std::size_t words_of_part = sizeof(Part) / sizeof(std::int64_t);
using PartWords = std::array<std::int64_t, words_of_part>;

/// Calls `visit(level)` for each node over blocks [first, last): the largest nodes that begin at the next block.
template <class Visit>
void for_each_node(std::int64_t first, std::int64_t last, const Visit& visit) {
  while (first < last) {
    const int aligned = first == 0 ? 62 : std::countr_zero(static_cast<std::uint64_t>(first));
    const int fitting = 63 - std::countl_zero(static_cast<std::uint64_t>(last - first));
    const int level = std::min(aligned, fitting);
    visit(level);
    first += std::int64_t{1} << level;
  }
}

/// `term(k)` is the term of local element k.
template <class Term>
Part part_of(std::int64_t first, std::int64_t last, const Term& term) {
  Part part;
  part.first = first;
  part.last = last;
  for (std::int64_t i = first; i < part.head_end(); ++i)
    part.head[static_cast<std::size_t>(i - first)] = term(i - first);
  for (std::int64_t i = part.tail_begin(); i < last; ++i)
    part.tail[static_cast<std::size_t>(i - part.tail_begin())] = term(i - first);
  std::int64_t next = part.head_end() - first;
  std::size_t nodes = 0;
  for_each_node(part.head_end() / block_elements, part.tail_begin() / block_elements, [&](int level) {
    Tree node;
    for (std::int64_t block = 0; block < std::int64_t{1} << level; ++block, next += block_elements) {
      Terms terms;
      for (std::int64_t k = 0; k < block_elements; ++k) terms[static_cast<std::size_t>(k)] = term(next + k);
      node.add(0, sum_of(terms));
    }
    part.nodes[nodes++] = node.sum();
  });
  return part;
}

/// Joins parts that follow one another.
class Joined {
 public:
  void add(const Part& part) {
    for (std::int64_t i = part.first; i < part.head_end(); ++i)
      add_term(part.head[static_cast<std::size_t>(i - part.first)]);
    std::size_t nodes = 0;
    for_each_node(part.head_end() / block_elements, part.tail_begin() / block_elements,
                  [&](int level) { tree_.add(level, part.nodes[nodes++]); });
    for (std::int64_t i = part.tail_begin(); i < part.last; ++i)
      add_term(part.tail[static_cast<std::size_t>(i - part.tail_begin())]);
  }
  [[nodiscard]] double sum() {
    if (terms_of_block_ > 0) end_block();
    return tree_.sum();
  }

 private:
  void add_term(double term) {
    block_[terms_of_block_++] = term;
    if (terms_of_block_ == block_elements) end_block();
  }
  void end_block() {
    std::fill(block_.begin() + static_cast<std::ptrdiff_t>(terms_of_block_), block_.end(), 0.0);
    tree_.add(0, sum_of(block_));
    terms_of_block_ = 0;
  }

  Tree tree_;
  Terms block_{};  // of the block that is not complete
  std::size_t terms_of_block_ = 0;
};

void check_parts(std::string_view call, const std::vector<Part>& parts, const std::vector<std::size_t>& order) {
  std::int64_t end = 0;
  for (const std::size_t rank : order) {
    const Part& part = parts[rank];
    if (part.first == part.last) continue;
    if (part.first != end) {
      detail::throw_error(Code::invalid_argument,
                          "{}: the parts of the ranks must follow one another from element 0 on, but rank {} has the "
                          "elements from {} to {}, and the elements before it end at {}",
                          call, rank, part.first, part.last, end);
    }
    end = part.last;
  }
}

template <class Term>
double sum_over_ranks(const Communicator& communicator, std::string_view call, std::size_t elements,
                      std::int64_t offset, const ReduceOptions& options, const Term& term) {
  const Part own = part_of(offset, offset + static_cast<std::int64_t>(elements), term);
  const auto words = std::bit_cast<PartWords>(own);
  std::vector<std::int64_t> all(words.size() * static_cast<std::size_t>(communicator.size()));
  ReduceOptions how = detail::internal_call(call, options.where);
  how.fail_after = options.fail_after;
  communicator.all_gather(words, all, how);
  std::vector<Part> parts;
  std::vector<std::size_t> order;
  for (std::size_t rank = 0; rank * words.size() < all.size(); ++rank) {
    PartWords of_rank;
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(rank * words.size()), words.size(), of_rank.begin());
    parts.push_back(std::bit_cast<Part>(of_rank));
    order.push_back(rank);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return parts[a].first < parts[b].first; });
  detail::propagate(communicator, [&] { check_parts(call, parts, order); }, detail::FoundBy::all_ranks);
  Joined joined;
  for (const std::size_t rank : order) {
    if (parts[rank].first != parts[rank].last) joined.add(parts[rank]);
  }
  return joined.sum();
}

void check_offset(std::string_view call, std::int64_t offset, std::size_t elements) {
  if (offset < 0) detail::throw_error(Code::invalid_argument, "{}: offset is {}; it must be at least 0", call, offset);
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() - block_elements;
  if (offset <= most - static_cast<std::int64_t>(elements)) return;
  detail::throw_error(Code::invalid_argument,
                      "{}: offset is {}, and there are {} elements; their sum must be at most {}", call, offset,
                      elements, most);
}

template <class T>
double dot_of(const Communicator& communicator, std::span<const T> x, std::span<const T> y, std::int64_t offset,
              const ReduceOptions& options) {
  constexpr std::string_view call = "reproducible::dot";
  detail::require_one_replica_per_rank(communicator, call);
  detail::propagate(communicator, [&] {
    check_offset(call, offset, x.size());
    if (x.size() == y.size()) return;
    detail::throw_error(Code::invalid_argument, "{}: x has {} elements, but y has {}", call, x.size(), y.size());
  });
  return sum_over_ranks(communicator, call, x.size(), offset, options, [&](std::int64_t k) {
    return static_cast<double>(x[static_cast<std::size_t>(k)]) * static_cast<double>(y[static_cast<std::size_t>(k)]);
  });
}

template <class T>
double sum_of_elements(const Communicator& communicator, std::span<const T> x, std::int64_t offset,
                       const ReduceOptions& options) {
  constexpr std::string_view call = "reproducible::sum";
  detail::require_one_replica_per_rank(communicator, call);
  detail::propagate(communicator, [&] { check_offset(call, offset, x.size()); });
  return sum_over_ranks(communicator, call, x.size(), offset, options,
                        [&](std::int64_t k) { return static_cast<double>(x[static_cast<std::size_t>(k)]); });
}

}  // namespace

double dot(const Communicator& communicator, std::span<const double> x, std::span<const double> y, std::int64_t offset,
           const ReduceOptions& options) {
  return dot_of(communicator, x, y, offset, options);
}
double dot(const Communicator& communicator, std::span<const float> x, std::span<const float> y, std::int64_t offset,
           const ReduceOptions& options) {
  return dot_of(communicator, x, y, offset, options);
}

double sum(const Communicator& communicator, std::span<const double> x, std::int64_t offset,
           const ReduceOptions& options) {
  return sum_of_elements(communicator, x, offset, options);
}
double sum(const Communicator& communicator, std::span<const float> x, std::int64_t offset,
           const ReduceOptions& options) {
  return sum_of_elements(communicator, x, offset, options);
}

double norm(const Communicator& communicator, std::span<const double> x, std::int64_t offset,
            const ReduceOptions& options) {
  return std::sqrt(dot(communicator, x, x, offset, options));
}
double norm(const Communicator& communicator, std::span<const float> x, std::int64_t offset,
            const ReduceOptions& options) {
  return std::sqrt(dot(communicator, x, x, offset, options));
}

}  // namespace lockstep::reproducible
