// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements of MPI's predefined types, for random calls.

#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace drop_in_test {

using Random = std::mt19937_64;
inline int below(Random& random, int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); }

struct Base {
  enum Kind : std::uint8_t { integer, floating, complex, byte, pair, other };
  MPI_Datatype type;
  std::size_t bytes;  ///< from one element to the next
  Kind kind;

  /// The bytes of an element that have no meaning, and may change when it is copied.
  struct Gap {
    std::size_t begin;
    std::size_t end;
  };
  [[nodiscard]] Gap gap() const;
  /// Whether the order of a sum or a product of such elements changes its bits.
  [[nodiscard]] bool rounds() const { return kind == floating || kind == complex; }
  /// The operations that MPI permits, but for logical ones and locations only those that are exact.
  [[nodiscard]] std::vector<MPI_Op> operations() const;
};

[[nodiscard]] std::vector<Base> bases();

/// The data of rank `rank` in call `call`: for floating-point types, numbers whose sums round.
void fill(const Base& base, std::byte* to, std::int64_t count, std::uint64_t call, int rank);

/// The sum or the product of the data of `ranks` ranks in call `call`, along the canonical tree. `base` rounds.
[[nodiscard]] std::vector<std::byte> canonical(const Base& base, bool is_sum, std::int64_t count, std::uint64_t call,
                                               int ranks);

}  // namespace drop_in_test
