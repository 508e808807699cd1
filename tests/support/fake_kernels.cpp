// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_kernels.hpp"

#include "support/run_on_host.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::test {

using detail::ElementOp;
using detail::Elementwise;
using detail::Fold;
using detail::FoldInput;
using detail::FoldResult;
using detail::RowStep;
using detail::SparseUpdate;
using detail::cuda::CopyRegion;

namespace {

/// A fold that owns its spans.
struct OwnedFold {
  explicit OwnedFold(const Fold& fold)
      : inputs(fold.inputs.begin(), fold.inputs.end()),
        merges(fold.merges.begin(), fold.merges.end()),
        outputs(fold.outputs.begin(), fold.outputs.end()),
        terms(fold) {}

  [[nodiscard]] Fold get() const {
    Fold fold = terms;
    fold.inputs = inputs;
    fold.merges = merges;
    fold.outputs = outputs;
    return fold;
  }

  std::vector<FoldInput> inputs;
  std::vector<std::uint8_t> merges;
  std::vector<void*> outputs;
  Fold terms;
};

/// The memory that kernels of one device can reach: its own, and pinned memory. May outlive the kernels.
class Reach {
 public:
  explicit Reach(FakeCuda& cuda) : memory_(cuda.memory()), device_(cuda.current_device()) {}

  [[nodiscard]] std::byte* bytes(const void* address, std::size_t bytes) const {
    return memory_.reach(address, bytes, device_);
  }
  /// Null also if they are not aligned.
  [[nodiscard]] std::byte* elements(const void* address, std::size_t element_bytes, std::int64_t count) const {
    if (reinterpret_cast<std::uintptr_t>(address) % element_bytes != 0) return nullptr;
    return bytes(address, static_cast<std::size_t>(count) * element_bytes);
  }

 private:
  const FakeMemory& memory_;
  int device_;
};

}  // namespace

FakeKernels::Status FakeKernels::load_all() {
  if (const auto failure = cuda_->calls().enter("load_all")) return *failure;
  return cuda_->has_devices() ? Status::success : Status::no_device;
}

FakeKernels::Status FakeKernels::reduce(const Fold& fold, std::int64_t count, Stream stream) {
  const bool fits = !fold.inputs.empty() && fold.inputs.size() <= most_inputs && fold.outputs.size() <= most_outputs &&
                    fold.merges.size() == fold.inputs.size() && count >= 0 && supports(fold.op, fold.dtype);
  if (!fits) return cuda_->launch("reduce", stream, nullptr);
  return cuda_->launch("reduce", stream, [count, reach = Reach(*cuda_), owned = OwnedFold(fold)]() mutable {
    if (count == 0) return Status::success;
    const DType accumulated = accumulation_dtype(owned.terms.op, owned.terms.dtype);
    const bool is_partial = owned.terms.result == FoldResult::partial;
    const DType result = is_partial ? accumulated : result_dtype(owned.terms.op, owned.terms.dtype);
    for (FoldInput& input : owned.inputs) {
      input.data = reach.elements(input.data, size_of(input.accumulated ? accumulated : owned.terms.dtype), count);
      if (input.data == nullptr) return Status::illegal_address;
    }
    for (void*& output : owned.outputs) {
      output = reach.elements(output, size_of(result), count);
      if (output == nullptr) return Status::illegal_address;
    }
    detail::cuda::fold_on_host(owned.get(), count);
    return Status::success;
  });
}

FakeKernels::Status FakeKernels::copy(std::span<const CopyRegion> pieces, Stream stream) {
  std::vector<CopyRegion> owned;
  for (const CopyRegion& piece : pieces) {
    if (piece.bytes != 0) owned.push_back(piece);
  }
  return cuda_->launch("copy", stream, [reach = Reach(*cuda_), owned = std::move(owned)]() mutable {
    for (CopyRegion& piece : owned) {
      piece.source = reach.bytes(piece.source, piece.bytes);
      piece.target = reach.bytes(piece.target, piece.bytes);
      if (piece.source == nullptr || piece.target == nullptr) return Status::illegal_address;
    }
    detail::cuda::copy_on_host(owned);
    return Status::success;
  });
}

FakeKernels::Status FakeKernels::fill(void* target, const void* element, std::size_t element_bytes, std::int64_t count,
                                      Stream stream) {
  const bool fits =
      count >= 0 && (element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8);
  if (!fits) return cuda_->launch("fill", stream, nullptr);
  std::array<std::byte, 8> owned{};
  std::memcpy(owned.data(), element, element_bytes);
  return cuda_->launch("fill", stream, [=, reach = Reach(*cuda_)] {
    if (count == 0) return Status::success;
    std::byte* const write = reach.elements(target, element_bytes, count);
    if (write == nullptr) return Status::illegal_address;
    detail::cuda::fill_on_host(write, owned.data(), element_bytes, count);
    return Status::success;
  });
}

FakeKernels::Status FakeKernels::compute_elementwise(const Elementwise& what, Stream stream) {
  const bool fits = what.op <= ElementOp::div && what.dtype != DType::boolean && what.count >= 0 &&
                    (what.left.array != nullptr || what.right.array != nullptr);
  if (!fits) return cuda_->launch("compute_elementwise", stream, nullptr);
  return cuda_->launch("compute_elementwise", stream, [placed = what, reach = Reach(*cuda_)]() mutable {
    if (placed.count == 0) return Status::success;
    const auto find = [&](const void* array) { return reach.elements(array, size_of(placed.dtype), placed.count); };
    placed.target = find(placed.target);
    if (placed.target == nullptr) return Status::illegal_address;
    for (detail::Operand* operand : {&placed.left, &placed.right}) {
      if (operand->array == nullptr) continue;
      operand->array = find(operand->array);
      if (operand->array == nullptr) return Status::illegal_address;
    }
    detail::cuda::elementwise_on_host(placed);
    return Status::success;
  });
}

FakeKernels::Status FakeKernels::apply_sparse_update(const SparseUpdate& update, void* carried, Stream stream) {
  const bool fits = update.op != ElementOp::update && update.dtype != DType::boolean && update.width >= 0 &&
                    (carried != nullptr || update.steps.size() <= most_row_steps);
  if (!fits) return cuda_->launch("apply_sparse_update", stream, nullptr);
  std::vector<RowStep> steps(update.steps.begin(), update.steps.end());
  return cuda_->launch("apply_sparse_update", stream,
                       [=, placed = update, reach = Reach(*cuda_), steps = std::move(steps)]() mutable {
                         if (steps.empty() || placed.width == 0) return Status::success;
                         const auto later = [](const RowStep& a, const RowStep& b) { return a.slice < b.slice; };
                         const std::int64_t slices = std::ranges::max(steps, later).slice + 1;
                         const std::int64_t rows = steps.back().row + 1;
                         const std::size_t bytes = size_of(placed.dtype);
                         placed.steps = steps;
                         placed.target = reach.elements(placed.target, bytes, rows * placed.width);
                         placed.slices = reach.elements(placed.slices, bytes, slices * placed.width);
                         if (placed.target == nullptr || placed.slices == nullptr) return Status::illegal_address;
                         if (steps.size() > most_row_steps) {
                           const DType sums = accumulation_dtype(ReduceOp::sum, placed.dtype);
                           carried = reach.elements(carried, size_of(sums), placed.width);
                           if (carried == nullptr) return Status::illegal_address;
                         }
                         detail::cuda::sparse_update_on_host(placed, carried);
                         return Status::success;
                       });
}

template <class Body, class... Spans>
FakeKernels::Status FakeKernels::launch_on_spans(std::string_view name, Stream stream, Body body, Spans... spans) {
  const std::size_t size = std::get<0>(std::tuple(spans...)).size();
  if (((spans.size() != size) || ...)) return cuda_->launch(name, stream, nullptr);
  return cuda_->launch(name, stream, [reach = Reach(*cuda_), size, body, spans...]() mutable {
    if (size == 0) return Status::success;
    const auto find = [&](auto& span) {
      using Span = std::remove_reference_t<decltype(span)>;
      auto* const data = reach.elements(span.data(), sizeof(float), static_cast<std::int64_t>(size));
      span = Span(reinterpret_cast<float*>(data), size);
      return data != nullptr;
    };
    if (!(find(spans) && ...)) return Status::illegal_address;
    body(spans...);
    return Status::success;
  });
}

FakeKernels::Status FakeKernels::sgd_step(std::span<float> parameter, std::span<const float> gradient, float rate,
                                          Stream stream) {
  const auto body = [=](auto... spans) { detail::cuda::sgd_step_on_host(spans..., rate); };
  return launch_on_spans("sgd_step", stream, body, parameter, gradient);
}

FakeKernels::Status FakeKernels::momentum_step(std::span<float> parameter, std::span<float> movement,
                                               std::span<const float> gradient, float rate, float momentum,
                                               Stream stream) {
  const auto body = [=](auto... spans) { detail::cuda::momentum_step_on_host(spans..., rate, momentum); };
  return launch_on_spans("momentum_step", stream, body, parameter, movement, gradient);
}

FakeKernels::Status FakeKernels::adam_step(std::span<float> parameter, std::span<float> mean, std::span<float> square,
                                           std::span<const float> gradient, const detail::AdamFactors& factors,
                                           Stream stream) {
  const auto body = [factors](auto... spans) { detail::cuda::adam_step_on_host(spans..., factors); };
  return launch_on_spans("adam_step", stream, body, parameter, mean, square, gradient);
}

FakeKernels::Status FakeKernels::adam_moments(std::span<float> mean, std::span<float> square,
                                              std::span<const float> gradient, float beta_1, float beta_2,
                                              Stream stream) {
  const auto body = [=](auto... spans) { detail::cuda::adam_moments_on_host(spans..., beta_1, beta_2); };
  return launch_on_spans("adam_moments", stream, body, mean, square, gradient);
}

FakeKernels::Status FakeKernels::lamb_direction(std::span<float> out, std::span<const float> parameter,
                                                std::span<const float> mean, std::span<const float> square,
                                                const detail::LambFactors& factors, Stream stream) {
  const auto body = [factors](auto... spans) { detail::cuda::lamb_direction_on_host(spans..., factors); };
  return launch_on_spans("lamb_direction", stream, body, out, parameter, mean, square);
}

}  // namespace lockstep::test
