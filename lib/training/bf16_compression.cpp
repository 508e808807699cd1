// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/communication_hook.hpp>

#include "base/check.hpp"
#include "device/host/host_elements.hpp"
#include "kernels/reduce.hpp"

#include <lockstep/device/tensor.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

BucketExchange::~BucketExchange() = default;

namespace {

/// Rounds `count` f32 elements to bf16, or widens bf16 elements to f32. The kernel of bf16 sums does both: f32 is its
/// accumulation type.
void convert(detail::FoldInput source, void* target, detail::FoldResult result, std::int64_t count) {
  constexpr std::array<std::uint8_t, 1> merges{0};
  detail::reduce({.op = ReduceOp::sum,
                  .dtype = DType::bf16,
                  .inputs = std::span(&source, 1),
                  .merges = merges,
                  .outputs = std::span(&target, 1),
                  .result = result},
                 count);
}

class Bf16Exchange final : public BucketExchange {
 public:
  Bf16Exchange(const Communicator& communicator, std::span<const Item> items, ReduceOp op) {
    lists_.reserve(items.size());
    for (const Item& item : items) {
      Views& views = lists_.emplace_back();
      views.outputs.assign(item.outputs.begin(), item.outputs.end());
      views.inputs.assign(item.inputs.begin(), item.inputs.end());
      for (std::size_t i = 0; i < item.inputs.size(); ++i) compress_later(item, i, views);
    }
    std::vector<Item> travelling;
    for (const Views& views : lists_) travelling.push_back({views.inputs, views.outputs});
    plan_.emplace(communicator.prepare_all_reduce(travelling, op));
  }

 private:
  struct Views {
    std::vector<ConstTensorView> inputs;
    std::vector<TensorView> outputs;
  };
  /// A tensor of f32, and the tensor of bf16 that is exchanged in its place.
  struct Compressed {
    ConstTensorView input;
    TensorView output;
    Tensor narrow;
  };

  void compress_later(const Item& item, std::size_t i, Views& views) {
    const ConstTensorView& input = item.inputs[i];
    if (!detail::is_on_host(input.device)) {
      detail::throw_error(Code::unimplemented,
                          "bf16_compression: a tensor is on {}; only tensors in host memory can be "
                          "compressed",
                          to_string(input.device));
    }
    if (input.dtype != DType::f32) return;
    compressed_.push_back({input, item.outputs[i], Tensor::uninitialized(DType::bf16, input.shape)});
    views.inputs[i] = compressed_.back().narrow.view();
    views.outputs[i] = compressed_.back().narrow.view();
  }

  void do_start() override {
    for (Compressed& each : compressed_) {
      convert({each.input.data, true}, each.narrow.view().data, detail::FoldResult::finished,
              each.input.element_count());
    }
    request_ = plan_->run_async();
    is_pending_ = true;
  }
  bool do_test() override {
    if (!is_pending_) return true;
    try {
      if (!request_.test()) return false;
    } catch (...) {
      is_pending_ = false;
      throw;
    }
    finish();
    return true;
  }
  void do_wait() override {
    if (!is_pending_) return;
    is_pending_ = false;  // also if the exchange has failed
    request_.wait();
    finish();
  }
  void finish() {
    is_pending_ = false;
    for (const Compressed& each : compressed_) {
      convert({each.narrow.view().data, false}, each.output.data, detail::FoldResult::partial,
              each.output.element_count());
    }
  }

  std::vector<Views> lists_;
  std::vector<Compressed> compressed_;
  std::optional<Plan> plan_;
  Request request_;
  bool is_pending_ = false;
};

}  // namespace

CommunicationHook bf16_compression() {
  return [](const Communicator& communicator, std::span<const Item> items, ReduceOp op) {
    return std::make_unique<Bf16Exchange>(communicator, items, op);
  };
}

}  // namespace lockstep
