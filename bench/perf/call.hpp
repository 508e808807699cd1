// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of a call that is the same for every library: the buffers, the inputs written to them, and the expected
// outputs.

#pragma once

#include "bench/perf/buffers.hpp"
#include "bench/perf/case.hpp"
#include "bench/perf/implementation.hpp"
#include "bench/perf/pattern.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace perf {

/// The buffers that a call needs on this rank. Local.
[[nodiscard]] CallExtent extent(const Case& what, const Job& job);

/// The values for lockstep's calls. With Order::any only exact values have one right result.
[[nodiscard]] inline Values values_of(const Options& options) {
  return options.order == lockstep::Order::canonical ? Values::mixed : Values::order_free;
}

/// One side of a comparison, for one case. `buffers` must be as large as `extent` says and outlive the call.
class Call : public Implementation {
 public:
  Call(const Case& what, const Job& job, const Buffers& buffers, Values values);

  void write(std::int64_t call) final;
  [[nodiscard]] std::int64_t count_wrong(std::int64_t call) const final;
  void touch_outputs() const final;
  [[nodiscard]] std::optional<double> posted_seconds() const final { return std::nullopt; }

 protected:
  [[nodiscard]] const Case& what() const noexcept { return what_; }
  [[nodiscard]] const Job& job() const noexcept { return job_; }
  /// One region for each input and each output of this rank.
  [[nodiscard]] std::span<const Region> inputs() const noexcept { return inputs_; }
  [[nodiscard]] std::span<const Region> outputs() const noexcept { return outputs_; }

 private:
  [[nodiscard]] std::int64_t count_wrong_in(std::span<const std::byte> output, int replica, std::int64_t call) const;
  /// The number of elements that `source` has for the replicas before `replica`.
  [[nodiscard]] std::int64_t elements_before(int replica, int source) const;

  Case what_;
  Job job_;
  std::vector<Region> inputs_;
  std::vector<Region> outputs_;
  std::vector<Pattern> own_;       // contents of the inputs
  std::vector<Pattern> expected_;  // contents of the outputs: one pattern, or one for each part
};

}  // namespace perf
