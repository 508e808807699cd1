// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/context/run_options.hpp>
#include <lockstep/core/axes.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/reduce_op_argument.hpp>
#include <lockstep/strategy/detail/step_values.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/values/detail/local_replicas.hpp>

#include <concepts>
#include <optional>
#include <source_location>
#include <string_view>
#include <type_traits>
#include <utility>

namespace lockstep {

/// A strategy with one replica on one device, a CPU or a GPU. The rules for scopes and step functions are those of all
/// strategies, so a program can be tested before it is scaled. Does not need MPI.
///
/// As in tf.distribute, `run` returns the plain result of the step function, and `reduce` the value itself. Code for
/// any strategy takes a Strategy&: through a reference, this strategy has the `run` and `reduce` of all strategies,
/// whose types do not depend on the strategy.
class LOCKSTEP_API OneDeviceStrategy : public Strategy {
 public:
  /// Throws Error(invalid_argument) for a name that is not a device, or a device of another task than task 0;
  /// Error(unavailable) for a device that does not exist.
  explicit OneDeviceStrategy(std::string_view device = "cpu:0");
  explicit OneDeviceStrategy(Device device);

  /// As Strategy::run, but returns the result of `fn`.
  template <class F, class... Args>
    requires(!std::same_as<std::remove_cvref_t<F>, RunOptions>)
  auto run(F&& fn, Args&&... args) {
    return detail::with_run_options(
        [this, &fn](const RunOptions& options, auto&... rest) {
          return this->run_checked(
              []<class Result>(detail::ReplicaResults<Result>& results) { return Result(std::move(*results[0])); },
              options, fn, rest...);
        },
        args...);
  }
  template <class F, class... Args>
  [[deprecated("use run(fn, args..., options)")]] auto run(const RunOptions& options, F&& fn, Args&&... args) {
    return run(std::forward<F>(fn), std::forward<Args>(args)..., options);
  }
  /// Older name of `run`.
  template <class F, class... Args>
    requires(!std::same_as<std::remove_cvref_t<F>, RunOptions>)
  auto experimental_run_v2(F&& fn, Args&&... args) {
    return run(std::forward<F>(fn), std::forward<Args>(args)...);
  }

  /// Returns `value` in its type, whatever `op` is: the mean of an int is this int. A PerReplica or Mirrored leaf gives
  /// its component, and a variable gives the Tensor that `read` returns. If Result is given, has the result of
  /// Strategy::reduce instead, so that the mean of an int is f64. Local. Throws Error(invalid_argument) for an unknown
  /// op, and Error(failed_precondition) in a step function.
  template <class Result = void, class Tree>
  [[nodiscard]] auto reduce(const ReduceOpArgument& op, const Tree& value, std::nullopt_t none = std::nullopt,
                            std::source_location where = std::source_location::current()) {
    if constexpr (std::is_void_v<Result>) {
      static_cast<void>(begin_reduction("reduce", op));
      detail::check_replicas(value, own_replicas(), {"reduce", "value"});
      return map_leaves(value, []<class Leaf>(const Leaf& leaf) {
        if constexpr (stays_whole<Leaf>) {
          return leaf.read();
        } else {
          return local_part(leaf, 0);
        }
      });
    } else {
      return Strategy::reduce<Result>(op, value, none, where);
    }
  }
  /// Reduces along `axes`, as Strategy::reduce.
  template <class Result = void, class Tree>
  [[nodiscard]] auto reduce(const ReduceOpArgument& op, const Tree& value, const Axes& axes,
                            std::source_location where = std::source_location::current()) {
    return Strategy::reduce<Result>(op, value, axes, where);
  }
};

}  // namespace lockstep
