// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The exchanges between ranks that read streams of their own and make equally many steps.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/input/input_options.hpp>
#include <lockstep/input/pipeline.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::input {

/// A rank alone needs no communicator.
class StepPeers {
 public:
  explicit StepPeers(const InputLayout& layout);

  [[nodiscard]] int replicas() const noexcept { return layout_.replicas.replicas(); }
  [[nodiscard]] std::size_t local_replicas() const {
    return static_cast<std::size_t>(layout_.replicas.count(layout_.rank));
  }
  [[nodiscard]] int rank() const noexcept { return layout_.rank; }
  [[nodiscard]] int rank_of(std::size_t replica) const { return layout_.replicas.rank_of(static_cast<int>(replica)); }

  /// One value per local replica to all replicas' values. Collective.
  [[nodiscard]] std::vector<std::int64_t> gather(std::vector<std::int64_t> mine);
  [[nodiscard]] std::vector<std::uint8_t> gather(std::vector<std::uint8_t> mine);
  /// From rank `root` to all, in place. Collective.
  void broadcast(std::span<std::int64_t> words, int root);
  [[nodiscard]] const InputLayout& layout() const noexcept { return layout_; }

 private:
  template <class T>
  std::vector<T> gather_all(std::vector<T> mine);

  InputLayout layout_;  // with peers if there are several ranks
};

/// What an element's tensors look like, and how ranks without one learn it.
class ElementKind {
 public:
  explicit ElementKind(std::size_t leaves) noexcept : leaves_(leaves) {}

  [[nodiscard]] bool is_known() const noexcept { return !empty_.empty(); }
  void learn(const Leaves& element);
  /// An element without rows.
  [[nodiscard]] Leaves without_rows_of_it() const;
  /// From rank `root` to all. Collective. 80 bytes per tensor.
  void broadcast(StepPeers& peers, int root);

 private:
  void write(std::span<std::int64_t> text, std::size_t words) const;
  void read(std::span<const std::int64_t> text, std::size_t words);

  std::size_t leaves_;
  Leaves empty_;
};

}  // namespace lockstep::input
