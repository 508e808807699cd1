// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A node with several sources.

#pragma once

#include "input/node.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::input {

/// What its sources answer together.
class SeveralNode : public Node {
 public:
  explicit SeveralNode(std::vector<std::shared_ptr<const Node>> sources) noexcept : sources_(std::move(sources)) {}
  /// That of all sources, if they agree.
  [[nodiscard]] std::int64_t batch_size() const override;
  [[nodiscard]] std::vector<std::string> files() const final;
  [[nodiscard]] bool has_shard_hint() const final;
  [[nodiscard]] std::shared_ptr<const Node> restricted(const Restriction& restriction) const final;

 protected:
  [[nodiscard]] virtual std::shared_ptr<const Node> over(std::vector<std::shared_ptr<const Node>> sources) const = 0;

  std::vector<std::shared_ptr<const Node>> sources_;
};

}  // namespace lockstep::input
