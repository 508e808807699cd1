// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A list of items with the views that they refer to.

#pragma once

#include <lockstep/collectives/item.hpp>

#include <memory>
#include <span>
#include <vector>

namespace lockstep::detail {

/// A copy of a list of items; the elements stay the caller's. Copies share it.
class OwnedItems {
 public:
  explicit OwnedItems(std::span<const Item> items) : content_(std::make_shared<Content>()) {
    for (const Item& item : items) {
      content_->inputs.emplace_back(item.inputs.begin(), item.inputs.end());
      content_->outputs.emplace_back(item.outputs.begin(), item.outputs.end());
    }
    for (std::size_t i = 0; i < items.size(); ++i)
      content_->items.push_back({content_->inputs[i], content_->outputs[i]});
  }
  [[nodiscard]] std::span<const Item> get() const noexcept { return content_->items; }

 private:
  struct Content {
    std::vector<std::vector<ConstTensorView>> inputs;
    std::vector<std::vector<TensorView>> outputs;
    std::vector<Item> items;
  };
  std::shared_ptr<Content> content_;
};

}  // namespace lockstep::detail
