// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What is the same for every library that makes a call: the memory, what is written there, what must be there after.

#pragma once

#include "buffers.hpp"
#include "case.hpp"
#include "contestant.hpp"
#include "pattern.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace perf {

/// What a side's calls need on this rank. Local.
[[nodiscard]] CallExtent extent(const Case& what, const Job& job);

/// Of ours, whose order is known by now: in any order only exact values have one right result.
[[nodiscard]] inline Values values_of(const Options& options) {
  return options.order == lockstep::Order::canonical ? Values::mixed : Values::order_free;
}

/// A side of a comparison within one case. `buffers` must be as large as `extent` says and outlive it.
class Call : public Contestant {
 public:
  Call(const Case& what, const Job& job, const Buffers& buffers, Values values);

  void write(std::int64_t call) final;
  [[nodiscard]] std::int64_t count_wrong(std::int64_t call) const final;
  void touch_outputs() const final;
  [[nodiscard]] std::optional<double> posted_seconds() const final { return posted_seconds_; }

 protected:
  [[nodiscard]] const Case& what() const noexcept { return what_; }
  [[nodiscard]] const Job& job() const noexcept { return job_; }
  /// One for each input and output that this rank has.
  [[nodiscard]] std::span<const Region> inputs() const noexcept { return inputs_; }
  [[nodiscard]] std::span<const Region> outputs() const noexcept { return outputs_; }

  std::optional<double> posted_seconds_;

 private:
  [[nodiscard]] std::int64_t count_wrong_in(std::span<const std::byte> output, int replica, std::int64_t call) const;
  /// Of what `source` has for all, those that come before `replica`'s.
  [[nodiscard]] std::int64_t elements_before(int replica, int source) const;

  Case what_;
  Job job_;
  std::vector<Region> inputs_;
  std::vector<Region> outputs_;
  std::vector<Pattern> own_;       // of the inputs
  std::vector<Pattern> expected_;  // of the outputs: one, or one for each part
};

}  // namespace perf
