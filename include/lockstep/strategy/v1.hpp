// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The strategies of tf.compat.v1 that run in one process. Their input iterators must be initialized before use.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/function.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/input/array_dataset.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/input_context.hpp>
#include <lockstep/input/input_options.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/strategy/one_device_strategy.hpp>
#include <lockstep/values/detail/set_cpu.hpp>
#include <lockstep/values/merge.hpp>

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::v1 {

/// Configuration of a session in v1 programs. lockstep has no sessions and ignores the values. See update_config_proto.
struct Config {
  /// Whether each session has its own variables, instead of sharing the variables of the process. Default: false.
  bool isolate_session_state = false;
  /// Devices that a session may use. Default: empty, which means all devices.
  std::vector<std::string> device_filters;

  friend bool operator==(const Config&, const Config&) = default;
};

/// Type of the session arguments of v1 functions. Never used.
struct Session {};

namespace detail {
/// Throws Error(failed_precondition): get_next was called before initialize.
[[noreturn]] LOCKSTEP_API void throw_not_initialized();
/// Throws Error(out_of_range): there is no further input for all replicas.
[[noreturn]] LOCKSTEP_API void throw_at_end(int replicas);
/// Throws Error(invalid_argument) unless `mode` is per_worker.
LOCKSTEP_API void check_replication_mode(InputReplicationMode mode);
/// Throws Error(invalid_argument) if a dataset has no batches that can be divided among replicas.
LOCKSTEP_API void check_batched(bool is_batched, int replicas);
}  // namespace detail

/// Returns one input per replica in each step. Created by make_dataset_iterator and make_input_fn_iterator. Move-only.
/// Thread-safety: one thread at a time.
template <ElementTree T>
class InputIterator {
 public:
  using value_type = T;
  /// The inputs of one step: see DistributedIterator::Batch.
  using Batch = merged_t<T>;
  /// Returns the inputs of the next step; std::nullopt at the end of the data.
  using Next = Function<std::optional<Batch>()>;

  /// For use by the library. `open()` returns a function that begins with the first step.
  InputIterator(Function<Next()> open, int replicas) : open_(std::move(open)), replicas_(replicas) {}
  InputIterator(InputIterator&&) noexcept = default;
  InputIterator& operator=(InputIterator&&) noexcept = default;

  /// Starts at the beginning of the data, also if the iterator has been used before. Local.
  void initialize() { next_ = open_(); }

  /// Returns the inputs of the next step. Local. Throws Error(failed_precondition) before the first initialize. At the
  /// end of the data, throws Error(out_of_range) until initialize is called again. In a step function, an iterator of
  /// make_dataset_iterator throws Error(invalid_argument).
  [[nodiscard]] Batch get_next() {
    if (!next_) detail::throw_not_initialized();
    if (std::optional<Batch> inputs = next_()) return std::move(*inputs);
    next_ = [] { return std::optional<Batch>(); };
    detail::throw_at_end(replicas_);
  }

 private:
  Function<Next()> open_;
  Next next_;
  int replicas_;
};

/// The functions that v1 strategies add to `Base`, a strategy of one process.
template <std::derived_from<Strategy> Base>
class StrategyMethods : public Base {
 public:
  using Base::Base;

  /// Calls `fn` once per replica, as `run` does. Each replica gets its own input from one get_next of `input_iterator`.
  /// Throws as `run` and get_next.
  template <class F, ElementTree T>
  [[deprecated("as in TensorFlow 2.x; use run")]] auto experimental_run(F&& fn, InputIterator<T>& input_iterator) {
    const merged_t<T> inputs = input_iterator.get_next();
    return this->run(std::forward<F>(fn), inputs);
  }
  /// As above, but calls `fn` without inputs.
  template <class F>
  [[deprecated("as in TensorFlow 2.x; use run")]] auto experimental_run(F&& fn) {
    return this->run(std::forward<F>(fn));
  }

  /// Returns an iterator that divides each batch of `dataset` among the replicas. A batch of n rows is divided into R
  /// slices of ceil(n / R) rows, where R is the number of replicas; the last slices may be short or empty. Call
  /// `initialize` before use. Local. Throws Error(invalid_argument) for a dataset without batches, and
  /// Error(failed_precondition) in a step function.
  template <ElementTree T>
  [[deprecated("as in TensorFlow 2.x; use experimental_distribute_dataset")]] [[nodiscard]] InputIterator<T>
  make_dataset_iterator(const Dataset<T>& dataset) {
    detail::check_batched(!dataset.pipeline().has_single_elements(), this->num_replicas_in_sync());
    const auto distributed = this->experimental_distribute_dataset(dataset, {.split = SplitPolicy::ceil_slices});
    return {[distributed] {
              const auto pass = std::make_shared<DistributedIterator<T>>(distributed.iterate());
              return [pass] { return pass->get_next_as_optional(); };
            },
            this->num_replicas_in_sync()};
  }

  /// Calls `input_fn(InputContext)` once, and returns an iterator over the resulting dataset. In each step every
  /// replica gets the next element, in the order of replica ids. The iterator ends before the first step for which
  /// there are fewer elements than replicas; these elements are dropped. Call `initialize` before use. Local. Throws
  /// Error(invalid_argument) if `replication_mode` is not per_worker.
  template <std::invocable<const InputContext&> Fn>
  [[deprecated("as in TensorFlow 2.x; use distribute_datasets_from_function")]] [[nodiscard]] auto
  make_input_fn_iterator(Fn&& input_fn, InputReplicationMode replication_mode = InputReplicationMode::per_worker) {
    using T = typename std::remove_cvref_t<std::invoke_result_t<Fn&, const InputContext&>>::value_type;
    detail::check_replication_mode(replication_mode);
    const int replicas = this->num_replicas_in_sync();
    const Dataset<T> dataset = lockstep::detail::invoke(input_fn, InputContext(1, 0, replicas));
    const auto own_devices = this->extended().worker_devices();
    return InputIterator<T>(
        [dataset, devices = std::vector<Device>(own_devices.begin(), own_devices.end())] {
          const auto pass = std::make_shared<DatasetIterator<T>>(dataset.iterate());
          return [pass, devices]() -> std::optional<merged_t<T>> {
            std::vector<T> inputs;
            for (const Device device : devices) {
              std::optional<T> element = pass->get_next_as_optional();
              if (!element) return std::nullopt;
              lockstep::detail::set_cpu_of_leaves(inputs.emplace_back(std::move(*element)), device);
            }
            return lockstep::detail::merge_trees<T>(static_cast<int>(inputs.size()), 0, [&inputs](int i) -> T& {
              return inputs[static_cast<std::size_t>(i)];
            });
          };
        },
        replicas);
  }

  /// A dataset of the rows of arrays: see array_dataset. `session` is ignored. Local.
  template <class Arrays>
  [[nodiscard]] auto experimental_make_numpy_dataset(const Arrays& numpy_input,
                                                     [[maybe_unused]] const Session* session = nullptr) const {
    return array_dataset(numpy_input);
  }
};

/// tf.compat.v1.distribute.MirroredStrategy.
class LOCKSTEP_API MirroredStrategy : public StrategyMethods<lockstep::MirroredStrategy> {
 public:
  using StrategyMethods::StrategyMethods;

  /// Returns a copy of `config` in which isolate_session_state is true. Local. `config` is not changed.
  [[deprecated("as in TensorFlow 2.x; there are no sessions")]] [[nodiscard]] Config update_config_proto(
      const Config& config) const;
};

/// tf.compat.v1.distribute.OneDeviceStrategy.
class LOCKSTEP_API OneDeviceStrategy : public StrategyMethods<lockstep::OneDeviceStrategy> {
 public:
  using StrategyMethods::StrategyMethods;

  /// Returns an unchanged copy of `config`, because one device needs no special configuration. Local.
  [[deprecated("as in TensorFlow 2.x; there are no sessions")]] [[nodiscard]] Config update_config_proto(
      const Config& config) const;
};

}  // namespace lockstep::v1
