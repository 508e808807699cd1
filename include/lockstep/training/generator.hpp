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

/// Sets the seed of generators that `Generator::from_global_seed` creates from now on; the seed is 0 before the first
/// call. Local, but a program must make this call on all ranks with the same value. Thread-safety: any thread.
LOCKSTEP_API void set_global_seed(std::uint64_t seed) noexcept;
[[nodiscard]] LOCKSTEP_API std::uint64_t global_seed() noexcept;

/// The position of a Generator in its streams. Value type.
struct GeneratorState {
  std::uint64_t seed = 0;
  std::uint32_t number = 0;               ///< 0, or 1 + the number given to from_global_seed
  std::uint64_t common = 0;               ///< position in the common stream
  bool in_scope = false;                  ///< whether the generator was created in a strategy's scope
  std::vector<std::uint64_t> of_replica;  ///< positions of the local replicas' streams; empty unless in_scope
};

/// Streams of random 32-bit words: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
/// 2011). Each word is a function of (seed, stream, position), so no two streams of a seed overlap.
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
/// If a generator was created outside every scope, all replicas must draw from it together. The local replicas have a
/// rendezvous, and Error(mismatch) is thrown if they draw different numbers of words. All ranks must draw the same
/// number of words; this is not checked. If a generator was created in a scope, a draw is Local, and replicas may draw
/// different numbers of words.
///
/// An f32 number, and a 32-bit integer of `uniform_full_int`, take one word of the stream; all other numbers take two
/// words. A draw of n numbers, followed by a draw of m numbers, gives the same numbers as one draw of n + m numbers.
/// Value type: a copy continues from the same position. Thread-safety: one thread at a time, except that the replicas
/// of one step may draw concurrently. Draws throw Error(failed_precondition) in update context, because the copies of a
/// variable would get different numbers. If the generator was created in a strategy's scope, draws in the scope or step
/// of another strategy also throw Error(failed_precondition).
class LOCKSTEP_API Generator {
 public:
  /// A generator with this seed, which must be the same on all ranks. Local.
  [[nodiscard]] static Generator from_seed(std::uint64_t seed);
  /// A generator with the seed that set_global_seed has set. Generators with different `number` have different streams,
  /// which are also distinct from the streams of from_seed. Local.
  [[nodiscard]] static Generator from_global_seed(std::uint32_t number = 0);

  /// Overwrites `out` with uniformly distributed numbers x, low <= x < high, with a resolution of 2^-24 (float), 2^-53
  /// (double) or 2^-64 (integers) of the range. Throws Error(invalid_argument) unless 0 < high - low < infinity.
  void uniform(std::span<float> out, float low = 0, float high = 1);
  void uniform(std::span<double> out, double low = 0, double high = 1);
  void uniform(std::span<std::int32_t> out, std::int32_t low, std::int32_t high);
  void uniform(std::span<std::int64_t> out, std::int64_t low, std::int64_t high);
  /// Overwrites `out` with the words of the stream. The first word of a 64-bit integer is its low half.
  void uniform_full_int(std::span<std::uint32_t> out);
  void uniform_full_int(std::span<std::uint64_t> out);
  /// Overwrites `out` with normally distributed numbers, by inversion of the distribution function. Numbers are at most
  /// 6.3 (float) or 8.2 (double) standard deviations from the mean. Throws Error(invalid_argument) unless `mean` is
  /// finite and `stddev` finite and not negative.
  void normal(std::span<float> out, float mean = 0, float stddev = 1);
  void normal(std::span<double> out, double mean = 0, double stddev = 1);

  /// A new tensor of f32 or f64 numbers, in [0, 1) or normally distributed around 0 with standard deviation 1.
  /// Throws Error(invalid_argument) for other element types.
  [[nodiscard]] Tensor uniform(const Shape& shape, DType dtype = DType::f32);
  [[nodiscard]] Tensor normal(const Shape& shape, DType dtype = DType::f32);

  /// Advances the stream like a draw of `words` words. Cost: constant.
  void skip(std::uint64_t words);

  /// The current position, for checkpoints. Local; not in step functions.
  [[nodiscard]] GeneratorState state() const;
  /// Continues from `state`. Local; not in step functions. Throws Error(invalid_argument), and changes nothing, if only
  /// one of the two generators, this generator and the generator of `state`, was created in a scope, or if the numbers
  /// of local replicas differ.
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
  std::vector<Position> of_replica_;  // by local replica of `owner_`: position in the replica's stream
  std::uint64_t common_ = 0;          // position in the stream that belongs to no replica
};

}  // namespace lockstep
