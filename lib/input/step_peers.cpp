// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/step_peers.hpp"

#include "base/check.hpp"
#include "collectives/internal_call.hpp"
#include "input/rows.hpp"

#include <lockstep/input/distributed_pipeline.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

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

namespace {

void broadcast_sizes(StepPeers& peers, std::span<std::size_t> sizes, int root) {
  std::vector<std::int64_t> words(sizes.begin(), sizes.end());
  peers.broadcast(words, root);
  std::copy(words.begin(), words.end(), sizes.begin());
}

}  // namespace

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
  if (structure_.keys) broadcast_keys(peers, root);
  constexpr std::size_t words = 2 + static_cast<std::size_t>(Shape::max_rank);
  std::vector<std::int64_t> text(structure_.leaves * words);
  if (peers.rank() == root) write(text, words);
  peers.broadcast(text, root);
  if (!is_known()) read(text, words);
}

/// First the number of tensors, and the sizes of the second message; then the lengths, the sizes of the names, and the
/// bytes of the names.
void ElementSpec::broadcast_keys(StepPeers& peers, int root) {
  Keys keys;
  if (peers.rank() == root) keys = structure_.keys->get();
  std::string bytes;
  for (const std::string& name : keys.names) bytes += name;
  std::array<std::size_t, 4> sizes{empty_.size(), keys.lengths.size(), keys.names.size(), bytes.size()};
  broadcast_sizes(peers, sizes, root);
  const auto [leaves, lengths, names, size] = sizes;
  structure_.leaves = leaves;

  std::vector<std::size_t> text = keys.lengths;
  for (const std::string& name : keys.names) text.push_back(name.size());
  const std::size_t first_byte = lengths + names;
  text.resize(first_byte + (size + sizeof(std::size_t) - 1) / sizeof(std::size_t));
  if (!bytes.empty()) std::memcpy(text.data() + first_byte, bytes.data(), bytes.size());
  broadcast_sizes(peers, text, root);

  keys.lengths.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(lengths));
  keys.names.clear();
  const char* name = reinterpret_cast<const char*>(text.data() + first_byte);
  for (std::size_t i = lengths; i < first_byte; name += text[i++]) keys.names.emplace_back(name, text[i]);
  structure_.keys->set(std::move(keys));  // no effect where the keys are known
}

void ElementSpec::write(std::span<std::int64_t> text, std::size_t words) const {
  LOCKSTEP_CHECK(empty_.size() == structure_.leaves);
  for (std::size_t i = 0; i < structure_.leaves; ++i) {
    const std::span<std::int64_t> entry = text.subspan(i * words, words);
    const std::span<const std::int64_t> extents = empty_[i].shape().extents();
    entry[0] = static_cast<std::int64_t>(empty_[i].dtype());
    entry[1] = empty_[i].shape().rank();
    std::copy(extents.begin(), extents.end(), entry.begin() + 2);
  }
}

void ElementSpec::read(std::span<const std::int64_t> text, std::size_t words) {
  for (std::size_t i = 0; i < structure_.leaves; ++i) {
    const std::span<const std::int64_t> entry = text.subspan(i * words, words);
    const Shape shape(entry.subspan(2, static_cast<std::size_t>(entry[1])));
    empty_.emplace_back(static_cast<DType>(entry[0]), shape);
  }
}

}  // namespace lockstep::input
