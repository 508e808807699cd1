// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that depend only on seed and replica id: every layout of the same replicas draws the same numbers.

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

/// Sets the seed of generators that `Generator::from_global_seed` creates from now on; it is 0 before the first call.
/// Local: a program calls it on all ranks with the same value. Thread-safety: any thread.
LOCKSTEP_API void set_global_seed(std::uint64_t seed) noexcept;
[[nodiscard]] LOCKSTEP_API std::uint64_t global_seed() noexcept;

/// The position of a Generator in its streams. Value type.
struct GeneratorState {
  std::uint64_t seed = 0;
  std::uint32_t number = 0;               ///< 0, or 1 + the number given to from_global_seed
  std::uint64_t common = 0;               ///< position in the common stream
  bool in_scope = false;                  ///< whether it was created in a strategy's scope
  std::vector<std::uint64_t> of_replica;  ///< positions of the local replicas' streams; empty unless in_scope
};

/// Streams of random 32-bit words: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
/// 2011), a function of (seed, stream, position), so no two streams of a seed overlap.
///
/// The place where a generator is created decides which stream a draw uses:
///
/// | created                | drawn from in a step function                 | drawn from elsewhere                 |
/// |------------------------|-----------------------------------------------|--------------------------------------|
/// | in a strategy's scope  | the replica's own stream, by its global id    | a common stream, the same on all     |
/// | or step                |                                               | ranks                                |
/// | outside every scope    | consecutive ranges of the common stream, in   | the common stream; ranks that make   |
/// |                        | the order of replica ids                      | the same draws get the same numbers  |
///
/// All replicas must therefore draw together from a generator that was created outside every scope: the local replicas
/// have a rendezvous, and Error(mismatch) is thrown if they draw different numbers of words; that ranks draw equally is
/// not checked. A draw from a generator that was created in a scope is Local, and replicas may draw different amounts.
///
/// An f32, and a 32-bit integer in `uniform_full_int`, take one word of the stream, everything else two. A draw of n
/// numbers and then of m gives the same numbers as one draw of n + m.
/// Value type: a copy continues from the same position. Thread-safety: one thread at a time, except that the replicas
/// of one step may draw concurrently. Draws throw Error(failed_precondition) in update context, where copies would get
/// different numbers, and in the scope or step of a strategy other than the one in whose scope the generator was
/// created.
class LOCKSTEP_API Generator {
 public:
  /// A generator with this seed, which must be the same on all ranks. Local.
  [[nodiscard]] static Generator from_seed(std::uint64_t seed);
  /// Generator `number` of the seed that set_global_seed has set. Different numbers give different streams, all
  /// distinct from those of from_seed. Local.
  [[nodiscard]] static Generator from_global_seed(std::uint32_t number = 0);

  /// Overwrites `out` with uniformly distributed numbers x, low <= x < high, with a resolution of 2^-24 (float), 2^-53
  /// (double) or 2^-64 (integers) of the range. Throws Error(invalid_argument) unless low < high (and both are finite).
  void uniform(std::span<float> out, float low = 0, float high = 1);
  void uniform(std::span<double> out, double low = 0, double high = 1);
  void uniform(std::span<std::int32_t> out, std::int32_t low, std::int32_t high);
  void uniform(std::span<std::int64_t> out, std::int64_t low, std::int64_t high);
  /// Overwrites `out` with the words of the stream; a 64-bit integer has its low word first.
  void uniform_full_int(std::span<std::uint32_t> out);
  void uniform_full_int(std::span<std::uint64_t> out);
  /// Overwrites `out` with normally distributed numbers, by inversion of the distribution function: at most 6.3
  /// standard deviations from the mean for float, 8.2 for double. Throws Error(invalid_argument) unless `mean` is
  /// finite and `stddev` finite and not negative.
  void normal(std::span<float> out, float mean = 0, float stddev = 1);
  void normal(std::span<double> out, double mean = 0, double stddev = 1);

  /// A new tensor of f32 or f64 numbers, in [0, 1) or normally distributed around 0 with standard deviation 1.
  /// Throws Error(invalid_argument) for other element types.
  [[nodiscard]] Tensor uniform(const Shape& shape, DType dtype = DType::f32);
  [[nodiscard]] Tensor normal(const Shape& shape, DType dtype = DType::f32);

  /// Advances the stream by `words` words, as a draw of as many would. Cost: constant.
  void skip(std::uint64_t words);

  /// The current position, for checkpoints. Local; not in step functions.
  [[nodiscard]] GeneratorState state() const;
  /// Continues from `state`. Local; not in step functions. Throws Error(invalid_argument), and changes nothing, if one
  /// of the generators was created in a scope and the other was not, or if the numbers of local replicas differ.
  void restore(const GeneratorState& state);

 private:
  struct alignas(64) Position {  // aligned, because replicas advance their positions concurrently
    std::uint64_t word = 0;
  };
  /// The stream and position at which a draw begins.
  struct Place {
    std::uint32_t stream = 0;
    std::uint64_t word = 0;
  };
  Generator(std::uint64_t seed, std::uint32_t number);
  Place take(std::uint64_t words);
  Place take_range(ReplicaContext& replica, std::uint64_t words);
  template <class T, class Draw>
  void fill(std::span<T> out, Draw draw);

  std::uint64_t seed_;
  std::uint32_t number_;              // 0, or 1 + the number given to from_global_seed
  const Strategy* owner_ = nullptr;   // null: created outside every scope
  std::vector<Position> of_replica_;  // positions by local replica of `owner_`
  std::uint64_t common_ = 0;          // position in the stream that belongs to no replica
};

}  // namespace lockstep
