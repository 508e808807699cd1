// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The strategies of tf.compat.v1: those of one process, with input iterators that have to be initialized.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/input/array_dataset.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/input_context.hpp>
#include <lockstep/input/input_options.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/strategy/one_device_strategy.hpp>
#include <lockstep/values/per_replica.hpp>

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::v1 {

/// What a v1 program hands to its session; lockstep has no sessions, so it is only carried. See update_config_proto.
struct Config {
  /// Whether each session has variables of its own, instead of those of the process.
  bool isolate_session_state = false;
  /// Which devices a session may see; empty: all.
  std::vector<std::string> device_filters;

  friend bool operator==(const Config&, const Config&) = default;
};

/// Stands where v1 signatures have a session; nothing looks at it.
struct Session {};

namespace detail {
/// Throws Error(failed_precondition): get_next before initialize.
[[noreturn]] LOCKSTEP_API void throw_not_initialized();
/// Throws Error(out_of_range): every element has been given.
[[noreturn]] LOCKSTEP_API void throw_at_end(int replicas);
/// Throws Error(invalid_argument) unless `mode` is per_worker.
LOCKSTEP_API void check_replication_mode(InputReplicationMode mode);
/// Throws Error(invalid_argument) if a dataset has no batches to be divided.
LOCKSTEP_API void check_batched(bool is_batched, int replicas);
}  // namespace detail

/// Gives one input per replica and step; made by make_dataset_iterator and make_input_fn_iterator. Move-only.
/// Thread-safety: one thread at a time.
template <ElementTree T>
class InputIterator {
 public:
  using value_type = T;
  /// The next step's inputs, nothing at the end.
  using Next = std::function<std::optional<PerReplica<T>>()>;

  /// For the library: `open()` starts over.
  InputIterator(std::function<Next()> open, int replicas) : open_(std::move(open)), replicas_(replicas) {}
  InputIterator(InputIterator&&) noexcept = default;
  InputIterator& operator=(InputIterator&&) noexcept = default;

  /// Starts from the beginning of the data, also for the second time. Local.
  void initialize() { next_ = open_(); }

  /// The next step's inputs. Local. Throws Error(failed_precondition) before initialize, Error(out_of_range) at the end
  /// and ever after, Error(invalid_argument) inside a replica's function for an iterator of make_dataset_iterator.
  [[nodiscard]] PerReplica<T> get_next() {
    if (!next_) detail::throw_not_initialized();
    if (std::optional<PerReplica<T>> inputs = next_()) return std::move(*inputs);
    next_ = [] { return std::optional<PerReplica<T>>(); };
    detail::throw_at_end(replicas_);
  }

 private:
  std::function<Next()> open_;
  Next next_;
  int replicas_;
};

/// What v1 strategies have on top of `Base`, a strategy of one process.
template <std::derived_from<Strategy> Base>
class StrategyMethods : public Base {
 public:
  using Base::Base;

  /// `fn` once per replica, as run, with the inputs of one get_next of `input_iterator`, each replica its own. As
  /// run in everything else; throws as get_next.
  template <class F, ElementTree T>
  [[deprecated("as in TensorFlow 2.x; use run")]] auto experimental_run(F&& fn, InputIterator<T>& input_iterator) {
    const PerReplica<T> inputs = input_iterator.get_next();
    return this->run(std::forward<F>(fn), inputs);
  }
  /// `fn` without inputs.
  template <class F>
  [[deprecated("as in TensorFlow 2.x; use run")]] auto experimental_run(F&& fn) {
    return this->run(std::forward<F>(fn));
  }

  /// Divides each batch of `dataset` evenly: of n rows and R replicas, slices of ceil(n / R), of which the last may be
  /// short or empty. Call `initialize` before use. Local. Throws Error(invalid_argument) for a dataset without batches,
  /// Error(failed_precondition) in a step function.
  template <ElementTree T>
  [[deprecated("as in TensorFlow 2.x; use experimental_distribute_dataset")]] [[nodiscard]] InputIterator<T>
  make_dataset_iterator(const Dataset<T>& dataset) {
    detail::check_batched(dataset.batch_size().has_value(), this->num_replicas_in_sync());
    const auto distributed = this->experimental_distribute_dataset(dataset, {.split = SplitPolicy::ceil_slices});
    return {[distributed] {
              const auto pass = std::make_shared<DistributedIterator<T>>(distributed.iterate());
              return [pass] { return pass->get_next_as_optional(); };
            },
            this->num_replicas_in_sync()};
  }

  /// Calls `input_fn(InputContext)` once; in each step every replica takes the next element of the dataset that it
  /// returns, in id order. Ends at the first step that cannot feed every replica; remaining elements are dropped. Call
  /// `initialize` before use. Local. Throws Error(invalid_argument) for another mode than per_worker.
  template <std::invocable<const InputContext&> Fn>
  [[deprecated("as in TensorFlow 2.x; use distribute_datasets_from_function")]] [[nodiscard]] auto
  make_input_fn_iterator(Fn&& input_fn, InputReplicationMode replication_mode = InputReplicationMode::per_worker) {
    using T = typename std::remove_cvref_t<std::invoke_result_t<Fn&, const InputContext&>>::value_type;
    detail::check_replication_mode(replication_mode);
    const int replicas = this->num_replicas_in_sync();
    const Dataset<T> dataset = std::invoke(input_fn, InputContext(1, 0, replicas));
    return InputIterator<T>(
        [dataset, replicas] {
          const auto pass = std::make_shared<DatasetIterator<T>>(dataset.iterate());
          return [pass, replicas]() -> std::optional<PerReplica<T>> {
            std::vector<T> inputs;
            while (static_cast<int>(inputs.size()) < replicas) {
              std::optional<T> element = pass->get_next_as_optional();
              if (!element) return std::nullopt;
              inputs.push_back(std::move(*element));
            }
            return PerReplica<T>(std::move(inputs));
          };
        },
        replicas);
  }

  /// A dataset of the rows of arrays: see array_dataset. `session` is not looked at. Local.
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

  /// A copy of `config` for sessions of this strategy: with variables of their own. Local; `config` is not changed.
  [[deprecated("as in TensorFlow 2.x; there are no sessions")]] [[nodiscard]] Config update_config_proto(
      const Config& config) const;
};

/// tf.compat.v1.distribute.OneDeviceStrategy.
class LOCKSTEP_API OneDeviceStrategy : public StrategyMethods<lockstep::OneDeviceStrategy> {
 public:
  using StrategyMethods::StrategyMethods;

  /// A copy of `config`; one device needs nothing special. Local.
  [[deprecated("as in TensorFlow 2.x; there are no sessions")]] [[nodiscard]] Config update_config_proto(
      const Config& config) const;
};

}  // namespace lockstep::v1
