// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that depend on seed and replica id alone, so that every layout of the same replicas draws the same.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

class ReplicaContext;
class Strategy;

/// The seed of generators that are made by `Generator::from_global_seed` from now on; 0 before the first call. Local: a
/// program calls it on all ranks with the same value. Thread-safety: any thread.
LOCKSTEP_API void set_global_seed(std::uint64_t seed) noexcept;
[[nodiscard]] LOCKSTEP_API std::uint64_t global_seed() noexcept;

/// Where a Generator is in its streams. A value.
struct GeneratorState {
  std::uint64_t seed = 0;
  std::uint32_t number = 0;               ///< 0, or 1 + the number given to from_global_seed
  std::uint64_t common = 0;               ///< position in the stream that belongs to no replica
  bool in_scope = false;                  ///< whether it was made in a strategy's scope
  std::vector<std::uint64_t> of_replica;  ///< positions of the local replicas' streams; empty unless in_scope
};

/// Streams of random 32-bit words: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
/// 2011), a function of (seed, stream, position), so no two streams of a seed overlap.
///
/// Where it is made decides who draws what:
///
/// | made                   | in a step function                            | elsewhere                            |
/// |------------------------|-----------------------------------------------|--------------------------------------|
/// | in a strategy's scope  | the replica's own stream, by its global id    | one more stream, the same on all     |
/// | or step                |                                               | ranks                                |
/// | outside of every scope | the next piece of the one stream; the pieces  | that stream; ranks that draw the     |
/// |                        | lie one after the other in the order of ids   | same get the same                    |
///
/// So a generator made outside is drawn from by all replicas together (All replicas): the local ones meet, and each
/// draws as many numbers as the others, else Error(mismatch) where they are on one rank; that ranks draw equally is the
/// caller's part. A generator made in scope meets nobody, and replicas may draw different amounts.
///
/// A f32 takes one word of the stream, an integer of 32 bits in `uniform_full_int` too, all else two: draws of n and
/// then m numbers give the same numbers as one of n + m.
/// A value: a copy continues from the same position. Thread-safety: one thread at a time; the replicas of one step may
/// draw at the same time.
/// Draws throw Error(failed_precondition) in update context, where copies would get different numbers, and in the scope
/// or step of another strategy than the one that the generator was made in.
class LOCKSTEP_API Generator {
 public:
  /// Local; all ranks give the same seed.
  [[nodiscard]] static Generator from_seed(std::uint64_t seed);
  /// Generator `number` of the seed that set_global_seed has set. Different numbers give different streams, and other
  /// ones than from_seed. Local.
  [[nodiscard]] static Generator from_global_seed(std::uint32_t number = 0);

  /// Overwrites `out` with numbers x, low <= x < high, all equally likely up to 2^-24 (float), 2^-53 (double) or 2^-64
  /// (integers) of the range. Throws Error(invalid_argument) unless low < high (and both are finite).
  void uniform(std::span<float> out, float low = 0, float high = 1);
  void uniform(std::span<double> out, double low = 0, double high = 1);
  void uniform(std::span<std::int32_t> out, std::int32_t low, std::int32_t high);
  void uniform(std::span<std::int64_t> out, std::int64_t low, std::int64_t high);
  /// Overwrites `out` with the words of the stream; a 64-bit integer has its low word first.
  void uniform_full_int(std::span<std::uint32_t> out);
  void uniform_full_int(std::span<std::uint64_t> out);
  /// Overwrites `out` with normally distributed numbers, by inversion: a float reaches 6.3 standard deviations, a
  /// double 8.2. Throws Error(invalid_argument) unless `mean` is finite and `stddev` finite and not negative.
  void normal(std::span<float> out, float mean = 0, float stddev = 1);
  void normal(std::span<double> out, double mean = 0, double stddev = 1);

  /// A new tensor of f32 or f64 numbers, in [0, 1) or normally distributed around 0 with standard deviation 1.
  /// Throws Error(invalid_argument) for other element types.
  [[nodiscard]] Tensor uniform(const Shape& shape, DType dtype = DType::f32);
  [[nodiscard]] Tensor normal(const Shape& shape, DType dtype = DType::f32);

  /// Leaves out the next `words` words, as a draw of so many would. Costs nothing.
  void skip(std::uint64_t words);

  /// For checkpoints. Local, outside of step functions.
  [[nodiscard]] GeneratorState state() const;
  /// Goes on where `state` was taken. Local, outside of step functions. Throws Error(invalid_argument) when one of both
  /// was made in a scope and the other outside, or there is another number of local replicas; nothing changes then.
  void restore(const GeneratorState& state);

 private:
  struct alignas(64) Position {  // replicas advance theirs at the same time
    std::uint64_t word = 0;
  };
  /// Where a draw begins.
  struct Place {
    std::uint32_t stream = 0;
    std::uint64_t word = 0;
  };
  Generator(std::uint64_t seed, std::uint32_t number);
  Place take(std::uint64_t words);
  Place take_piece(ReplicaContext& replica, std::uint64_t words);
  template <class T, class Draw>
  void fill(std::span<T> out, Draw draw);

  std::uint64_t seed_;
  std::uint32_t number_;              // 0, or 1 + the number given to from_global_seed
  const Strategy* owner_ = nullptr;   // null: made outside
  std::vector<Position> of_replica_;  // one per local replica of `owner_`
  std::uint64_t common_ = 0;          // position in the stream that belongs to no replica
};

}  // namespace lockstep
