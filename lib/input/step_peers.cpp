// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/step_peers.hpp"

#include "base/check.hpp"
#include "collectives/internal_call.hpp"
#include "input/rows.hpp"

#include <lockstep/input/distributed_pipeline.hpp>

#include <algorithm>

namespace lockstep::input {

StepPeers::StepPeers(const InputLayout& layout) : layout_(layout) {
  LOCKSTEP_CHECK(layout.replicas.ranks() == 1 || layout.peers.has_value());
  if (layout.replicas.ranks() == 1) layout_.peers.reset();
}

template <class T>
std::vector<T> StepPeers::gather_all(std::vector<T> mine, std::size_t words) {
  if (!layout_.peers) return mine;
  std::vector<ConstTensorView> inputs;
  inputs.reserve(mine.size() / words);
  for (std::size_t i = 0; i < mine.size(); i += words)
    inputs.push_back(view_of(std::span<const T>(mine).subspan(i, words)));
  std::vector<T> all(static_cast<std::size_t>(replicas()) * words);
  const TensorView output = view_of(std::span<T>(all));
  const Item item{inputs, std::span(&output, 1)};
  layout_.peers->all_gather(std::span(&item, 1), detail::internal_call("get_next of a distributed dataset"));
  return all;
}

std::vector<std::int64_t> StepPeers::gather(std::vector<std::int64_t> mine, std::size_t words) {
  return gather_all(std::move(mine), words);
}
std::vector<std::uint8_t> StepPeers::gather(std::vector<std::uint8_t> mine) { return gather_all(std::move(mine), 1); }

void StepPeers::broadcast(std::span<std::int64_t> words, int root) {
  if (!layout_.peers) return;
  const TensorView output = view_of(words);
  const ConstTensorView input(output);
  const bool is_root = rank() == root;
  const Item item{is_root ? std::span(&input, 1) : std::span<const ConstTensorView>(),
                  is_root ? std::span<const TensorView>() : std::span(&output, 1)};
  layout_.peers->broadcast(std::span(&item, 1), root, detail::internal_call("get_next of a distributed dataset"));
}

void ElementSpec::learn(const Leaves& element) {
  if (is_known()) return;
  for (const Tensor& leaf : element) empty_.emplace_back(leaf.dtype(), emptied(leaf.shape()));
}

Leaves ElementSpec::empty_element() const {
  Leaves element;
  for (const Tensor& leaf : empty_) element.push_back(leaf.clone());
  return element;
}

void ElementSpec::broadcast(StepPeers& peers, int root) {
  constexpr std::size_t words = 2 + static_cast<std::size_t>(Shape::max_rank);
  std::vector<std::int64_t> text(leaves_ * words);
  if (peers.rank() == root) write(text, words);
  peers.broadcast(text, root);
  if (!is_known()) read(text, words);
}

void ElementSpec::write(std::span<std::int64_t> text, std::size_t words) const {
  LOCKSTEP_CHECK(empty_.size() == leaves_);
  for (std::size_t i = 0; i < leaves_; ++i) {
    const std::span<std::int64_t> entry = text.subspan(i * words, words);
    const std::span<const std::int64_t> extents = empty_[i].shape().extents();
    entry[0] = static_cast<std::int64_t>(empty_[i].dtype());
    entry[1] = empty_[i].shape().rank();
    std::copy(extents.begin(), extents.end(), entry.begin() + 2);
  }
}

void ElementSpec::read(std::span<const std::int64_t> text, std::size_t words) {
  for (std::size_t i = 0; i < leaves_; ++i) {
    const std::span<const std::int64_t> entry = text.subspan(i * words, words);
    const Shape shape(entry.subspan(2, static_cast<std::size_t>(entry[1])));
    empty_.emplace_back(static_cast<DType>(entry[0]), shape);
  }
}

}  // namespace lockstep::input
