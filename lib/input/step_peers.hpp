// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Communication between ranks that read separate streams but make the same number of steps.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/input/element_keys.hpp>
#include <lockstep/input/input_options.hpp>
#include <lockstep/input/pipeline.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::input {

/// Communication of the ranks of a layout. If there is only one rank, no data is sent, and no communicator is needed.
class StepPeers {
 public:
  explicit StepPeers(const InputLayout& layout);

  [[nodiscard]] int replicas() const noexcept { return layout_.replicas.replicas(); }
  [[nodiscard]] std::size_t local_replicas() const {
    return static_cast<std::size_t>(layout_.replicas.count(layout_.rank));
  }
  [[nodiscard]] int rank() const noexcept { return layout_.rank; }
  [[nodiscard]] int rank_of(std::size_t replica) const { return layout_.replicas.rank_of(static_cast<int>(replica)); }

  /// Gathers the values of all replicas; `mine` has one value, or `words` values, per local replica. Collective.
  [[nodiscard]] std::vector<std::int64_t> gather(std::vector<std::int64_t> mine, std::size_t words);
  [[nodiscard]] std::vector<std::uint8_t> gather(std::vector<std::uint8_t> mine);
  /// Broadcasts `words` from rank `root`, in place. Collective.
  void broadcast(std::span<std::int64_t> words, int root);
  [[nodiscard]] const InputLayout& layout() const noexcept { return layout_; }

 private:
  template <class T>
  std::vector<T> gather_all(std::vector<T> mine, std::size_t words);

  InputLayout layout_;  // has peers if there are several ranks
};

/// Dtypes and inner shapes of an element's tensors; can be broadcast to ranks that have not read an element.
class ElementSpec {
 public:
  explicit ElementSpec(ElementStructure structure) noexcept : structure_(std::move(structure)) {}

  [[nodiscard]] bool is_known() const noexcept { return !empty_.empty(); }
  void learn(const Leaves& element);
  /// An element of this spec without rows.
  [[nodiscard]] Leaves empty_element() const;
  /// Broadcasts the spec from rank `root`: 80 bytes per tensor. If the structure has keys, they are broadcast too, in
  /// two more calls. Collective.
  void broadcast(StepPeers& peers, int root);

 private:
  void broadcast_keys(StepPeers& peers, int root);
  void write(std::span<std::int64_t> text, std::size_t words) const;
  void read(std::span<const std::int64_t> text, std::size_t words);

  ElementStructure structure_;
  Leaves empty_;
};

}  // namespace lockstep::input
