// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/generator.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "context/step.hpp"
#include "context/thread_context.hpp"
#include "training/normal_quantile.hpp"
#include "training/philox.hpp"

#include <lockstep/context/context.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/strategy/scope.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/values/per_replica.hpp>

#include <atomic>
#include <cmath>
#include <concepts>
#include <type_traits>

namespace lockstep {
namespace {

// A process-wide value, as in tf.random: a program sets the seed before it creates an object that could store the seed.
constinit std::atomic<std::uint64_t> process_seed{0};

/// Number of 32-bit words of the random stream that one value of type T takes.
template <class T>
constexpr std::uint64_t words_of = std::same_as<T, float> || std::same_as<T, std::uint32_t> ? 1 : 2;

/// The upper 64 bits of a product.
constexpr std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t a_low = a & 0xFFFFFFFF;
  const std::uint64_t b_low = b & 0xFFFFFFFF;
  const std::uint64_t middle = (a >> 32) * b_low + (a_low * b_low >> 32);
  const std::uint64_t other = a_low * (b >> 32) + (middle & 0xFFFFFFFF);
  return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}

/// Maps the next word (double: two words) to [0, 1), with all bits of the significand.
float fraction(detail::PhiloxWords& words, float) { return static_cast<float>(words.next() >> 8) * 0x1p-24F; }
double fraction(detail::PhiloxWords& words, double) { return static_cast<double>(words.next_64() >> 11) * 0x1p-53; }

/// Maps the next word (double: two words) to the centre of one of 2^32 (double: 2^52) equal intervals in (0, 1).
double share(detail::PhiloxWords& words, float) { return (static_cast<double>(words.next()) + 0.5) * 0x1p-32; }
double share(detail::PhiloxWords& words, double) {
  return (static_cast<double>(words.next_64() >> 12) + 0.5) * 0x1p-52;
}

template <class T>
void check_range(T low, T high) {
  const bool is_finite = !std::floating_point<T> || std::isfinite(static_cast<double>(high - low));
  if (low < high && is_finite) return;
  detail::throw_error(Code::invalid_argument,
                      "Generator::uniform: low is {}, high is {}; low must be less than high, and their difference "
                      "finite",
                      low, high);
}

template <class T>
void check_normal(T mean, T stddev) {
  if (std::isfinite(mean) && std::isfinite(stddev) && stddev >= 0) return;
  detail::throw_error(Code::invalid_argument,
                      "Generator::normal: mean is {}, stddev {}; both must be finite, and stddev not negative", mean,
                      stddev);
}

template <class T>
T uniform_float(detail::PhiloxWords& words, T low, T high) {
  const T value = low + (high - low) * fraction(words, T{});
  return value < high ? value : std::nextafter(high, low);  // rounding may give `high`
}

template <class T>
T uniform_integer(detail::PhiloxWords& words, T low, T high) {
  const auto start = static_cast<std::uint64_t>(std::int64_t{low});
  const std::uint64_t range = static_cast<std::uint64_t>(std::int64_t{high}) - start;
  return static_cast<T>(static_cast<std::int64_t>(start + multiply_high(words.next_64(), range)));
}

/// A tensor of f32 or f64 whose elements `fill(elements)` writes.
template <class Fill>
Tensor new_tensor(const char* call, const Shape& shape, DType dtype, Fill fill) {
  if (dtype != DType::f32 && dtype != DType::f64) {
    detail::throw_error(Code::invalid_argument,
                        "Generator::{}: the element type is {}; it must be f32 or f64, or draw into a span", call,
                        to_string(dtype));
  }
  Tensor tensor = Tensor::uninitialized(dtype, shape);
  if (dtype == DType::f32) {
    fill(tensor.elements<float>());
  } else {
    fill(tensor.elements<double>());
  }
  return tensor;
}

std::string place_of_creation(bool in_scope, std::size_t replicas) {
  return in_scope ? "in a scope with " + detail::counted(replicas, "local replica") : "outside every scope";
}

}  // namespace

void set_global_seed(std::uint64_t seed) noexcept { process_seed.store(seed, std::memory_order_relaxed); }
std::uint64_t global_seed() noexcept { return process_seed.load(std::memory_order_relaxed); }

Generator::Generator(std::uint64_t seed, std::uint32_t number) : seed_(seed), number_(number) {
  if (!has_strategy()) return;
  owner_ = &get_strategy();
  of_replica_.resize(static_cast<std::size_t>(owner_->communicator().local_replicas()));
}

Generator Generator::from_seed(std::uint64_t seed) { return {seed, 0}; }
Generator Generator::from_global_seed(std::uint32_t number) { return {global_seed(), number + 1}; }

Generator::Place Generator::take(std::uint64_t words) {
  if (thread_context().mode == Mode::update) {
    detail::throw_error(Code::failed_precondition,
                        "Generator: called in update context, where the copies of a variable would get different "
                        "numbers; draw the numbers before update and pass them to it");
  }
  if (owner_ != nullptr && has_strategy() && &get_strategy() != owner_) {
    detail::throw_error(Code::failed_precondition,
                        "Generator: it was created in the scope of one strategy and is used in the scope of another; "
                        "create one in each, or one outside of both");
  }
  ReplicaContext* replica = has_strategy() ? get_replica_context() : nullptr;
  if (replica == nullptr) {
    const Place place{0, common_};
    common_ += words;
    return place;
  }
  if (owner_ == nullptr) return take_range(*replica, words);
  Position& position = of_replica_[static_cast<std::size_t>(replica->local_replica())];
  const Place place{static_cast<std::uint32_t>(replica->replica_id_in_sync_group()) + 1, position.word};
  position.word += words;
  return place;
}

Generator::Place Generator::take_range(ReplicaContext& replica, std::uint64_t words) {
  StepAccess::name_merge_call(replica, {"a draw from a Generator that was created outside every scope", {}});
  const std::uint64_t first = replica.merge_call(
      [this](Strategy& strategy, const PerReplica<std::uint64_t>& counts) {
        const std::uint64_t count = counts.component(0);
        for (int i = 1; i < counts.size(); ++i) {
          if (counts.component(i) == count) continue;
          detail::throw_error(
              Code::mismatch,
              "Generator: replica {} draws {} random words, but replica {} draws {}; all replicas must "
              "draw the same amount from a generator that was created outside every scope; create it in a scope",
              counts.first_replica() + i, counts.component(i), counts.first_replica(), count);
        }
        const std::uint64_t start = common_;
        common_ += count * static_cast<std::uint64_t>(strategy.num_replicas_in_sync());
        return start;
      },
      words);
  return {0, first + words * static_cast<std::uint64_t>(replica.replica_id_in_sync_group())};
}

template <class T, class Draw>
void Generator::fill(std::span<T> out, Draw draw) {
  const Place place = take(out.size() * words_of<T>);
  detail::PhiloxWords words(seed_, place.stream, number_, place.word);
  for (T& x : out) x = draw(words);
}

void Generator::uniform(std::span<float> out, float low, float high) {
  check_range(low, high);
  fill(out, [=](detail::PhiloxWords& words) { return uniform_float(words, low, high); });
}
void Generator::uniform(std::span<double> out, double low, double high) {
  check_range(low, high);
  fill(out, [=](detail::PhiloxWords& words) { return uniform_float(words, low, high); });
}
void Generator::uniform(std::span<std::int32_t> out, std::int32_t low, std::int32_t high) {
  check_range(low, high);
  fill(out, [=](detail::PhiloxWords& words) { return uniform_integer(words, low, high); });
}
void Generator::uniform(std::span<std::int64_t> out, std::int64_t low, std::int64_t high) {
  check_range(low, high);
  fill(out, [=](detail::PhiloxWords& words) { return uniform_integer(words, low, high); });
}
void Generator::uniform_full_int(std::span<std::uint32_t> out) {
  fill(out, [](detail::PhiloxWords& words) { return words.next(); });
}
void Generator::uniform_full_int(std::span<std::uint64_t> out) {
  fill(out, [](detail::PhiloxWords& words) { return words.next_64(); });
}
void Generator::normal(std::span<float> out, float mean, float stddev) {
  check_normal(mean, stddev);
  fill(out, [=](detail::PhiloxWords& words) {
    return static_cast<float>(double{mean} + double{stddev} * detail::normal_quantile(share(words, 0.0F)));
  });
}
void Generator::normal(std::span<double> out, double mean, double stddev) {
  check_normal(mean, stddev);
  fill(out, [=](detail::PhiloxWords& words) { return mean + stddev * detail::normal_quantile(share(words, 0.0)); });
}

Tensor Generator::uniform(const Shape& shape, DType dtype) {
  return new_tensor("uniform", shape, dtype, [this](auto elements) { uniform(elements); });
}
Tensor Generator::normal(const Shape& shape, DType dtype) {
  return new_tensor("normal", shape, dtype, [this](auto elements) { normal(elements); });
}

void Generator::skip(std::uint64_t words) { static_cast<void>(take(words)); }

GeneratorState Generator::state() const {
  GeneratorState state{seed_, number_, common_, owner_ != nullptr, {}};
  for (const Position& position : of_replica_) state.of_replica.push_back(position.word);
  return state;
}

void Generator::restore(const GeneratorState& state) {
  if (state.in_scope != (owner_ != nullptr) || state.of_replica.size() != of_replica_.size()) {
    detail::throw_error(
        Code::invalid_argument,
        "Generator::restore: the state is of a generator that was created {}, but this one was created {}; create both "
        "in the same way",
        place_of_creation(state.in_scope, state.of_replica.size()),
        place_of_creation(owner_ != nullptr, of_replica_.size()));
  }
  seed_ = state.seed;
  number_ = state.number;
  common_ = state.common;
  for (std::size_t i = 0; i < of_replica_.size(); ++i) of_replica_[i].word = state.of_replica[i];
}

}  // namespace lockstep
