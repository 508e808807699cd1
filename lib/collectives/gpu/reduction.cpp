// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/reduction.hpp"

#include "base/check.hpp"
#include "collectives/call/host_item.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::detail {
namespace {

/// The subtree over inputs [first, last). An entry of the stack of split_fold.
struct Subtree {
  std::size_t first;
  std::size_t last;
  SplitFold cut;  // empty unless the subtree is too large for one fold
};

/// Whether the result of `fold` is its only input, bit by bit: no element is combined, divided or converted.
bool has_bits_of_input(const Fold& fold) {
  return fold.inputs.size() == 1 && fold.op != ReduceOp::mean &&
         accumulation_dtype(fold.op, fold.dtype) == fold.dtype && result_dtype(fold.op, fold.dtype) == fold.dtype;
}

}  // namespace

SplitFold split_fold(std::span<const std::uint8_t> merges, std::size_t most) {
  // evaluates the fold on subtrees instead of values; if a merge gives a subtree of more than `most` inputs, its two
  // halves become separate subfolds
  const auto cut_of = [&](const Subtree& subtree) {
    if (!subtree.cut.subfolds.empty()) return subtree.cut;
    const auto own = merges.subspan(subtree.first, subtree.last - subtree.first);
    Subfold whole{subtree.first, {own.begin(), own.end()}};
    // n inputs need n - 1 merges; the last input may have more, which belong to larger subtrees and are removed
    std::size_t above = 0;
    for (const std::uint8_t count : own) above += count;
    whole.merges.back() = static_cast<std::uint8_t>(whole.merges.back() - (above - (own.size() - 1)));
    return SplitFold{{std::move(whole)}, {0}};
  };
  std::vector<Subtree> stack;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    stack.push_back({i, i + 1, {}});
    for (int merge = 0; merge < merges[i]; ++merge) {
      LOCKSTEP_CHECK(stack.size() >= 2);
      const Subtree right = std::move(stack.back());
      stack.pop_back();
      Subtree& left = stack.back();
      if (right.last - left.first > most) {
        SplitFold both = cut_of(left);
        const SplitFold tail = cut_of(right);
        both.subfolds.insert(both.subfolds.end(), tail.subfolds.begin(), tail.subfolds.end());
        both.merges.insert(both.merges.end(), tail.merges.begin(), tail.merges.end());
        ++both.merges.back();
        left.cut = std::move(both);
      }
      left.last = right.last;
    }
  }
  LOCKSTEP_CHECK(stack.size() == 1);
  return cut_of(stack.front());
}

GpuReduction::GpuReduction(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items,
                           std::vector<Bucket> buckets)
    : GpuOperation(descriptor, std::move(group), std::move(items)), buckets_(std::move(buckets)) {}

void GpuReduction::place(std::size_t stream, const Bucket& bucket, PlacedBucket& placed) const {
  const HostItem& item = items()[bucket.members.front().item];
  for (const int replica : leader_of(stream).replicas) placed.inputs.push_back(input_of(item, replica));
  placed.outputs = outputs_on(stream, item);
}

void GpuReduction::place_packed(std::size_t stream, const Bucket& bucket, PlacedBucket& placed,
                                std::vector<cuda::CopyRegion>& pieces) {
  for (const int replica : leader_of(stream).replicas) {
    void* const packed = scratch(stream, bytes_of(bucket.count, bucket.dtype));
    placed.inputs.push_back(packed);
    for (const BucketMember& member : bucket.members) {
      const HostItem& item = items()[member.item];
      pieces.push_back(
          {input_of(item, replica), at(packed, member.begin, bucket.dtype), bytes_of(item.count(), bucket.dtype)});
    }
  }
  const DType dtype = result_of(bucket);
  void* result = nullptr;
  for (const BucketMember& member : bucket.members) {
    const HostItem& item = items()[member.item];
    for (void* const output : outputs_on(stream, item)) {
      if (result == nullptr) result = scratch(stream, bytes_of(bucket.count, dtype));
      placed.unpack.push_back({at(result, member.begin, dtype), output, bytes_of(item.count(), dtype)});
    }
  }
  if (result != nullptr) placed.outputs.push_back(result);
}

void GpuReduction::pack() {
  placed_.resize(streams());
  for (std::size_t stream = 0; stream < streams(); ++stream) {
    std::vector<cuda::CopyRegion> pieces;
    for (const Bucket& bucket : buckets_) {
      PlacedBucket& placed = placed_[stream].emplace_back();
      if (bucket.is_packed()) {
        place_packed(stream, bucket, placed, pieces);
      } else {
        place(stream, bucket, placed);
      }
    }
    copy(stream, pieces);
  }
}

void GpuReduction::unpack() {
  for (std::size_t stream = 0; stream < streams(); ++stream) {
    std::vector<cuda::CopyRegion> pieces;
    for (const PlacedBucket& placed : placed_[stream])
      pieces.insert(pieces.end(), placed.unpack.begin(), placed.unpack.end());
    copy(stream, pieces);
  }
}

void GpuReduction::fold(std::size_t stream, const Fold& fold, std::int64_t count) {
  constexpr auto most = static_cast<std::size_t>(cuda::Kernels::most_inputs);
  if (fold.inputs.size() <= most) {
    fold_at_once(stream, fold, count);
    return;
  }
  const SplitFold split = split_fold(fold.merges, most);
  const DType dtype = accumulation_dtype(fold.op, fold.dtype);
  std::vector<FoldInput> inputs;
  for (const Subfold& subfold : split.subfolds) {
    inputs.push_back(fold.inputs[subfold.first]);
    if (subfold.merges.size() == 1) continue;
    void* const output = scratch(stream, static_cast<std::size_t>(count) * size_of(dtype));
    fold_at_once(stream,
                 {.op = fold.op,
                  .dtype = fold.dtype,
                  .inputs = fold.inputs.subspan(subfold.first, subfold.merges.size()),
                  .merges = subfold.merges,
                  .outputs = std::span(&output, 1),
                  .result = FoldResult::partial},
                 count);
    inputs.back() = {output, true};
  }
  Fold rest = fold;
  rest.inputs = inputs;
  rest.merges = split.merges;
  this->fold(stream, rest, count);
}

void GpuReduction::fold_at_once(std::size_t stream, const Fold& fold, std::int64_t count) {
  if (count == 0 || fold.outputs.empty()) return;
  if (has_bits_of_input(fold) && fold.outputs.size() == 1 && fold.outputs.front() == fold.inputs.front().data) return;
  const cuda::CurrentDevice current(device_of(stream));
  cuda::Backend& backend = cuda::Backend::of_this_process();
  Fold launched = fold;
  launched.outputs = fold.outputs.first(std::min<std::size_t>(fold.outputs.size(), cuda::Kernels::most_outputs));
  cuda::check(backend.api(), backend.kernels().reduce(launched, count, cuda_stream(stream)), "reduce kernel");
  const DType dtype =
      fold.result == FoldResult::partial ? accumulation_dtype(fold.op, fold.dtype) : result_dtype(fold.op, fold.dtype);
  std::vector<cuda::CopyRegion> further;
  for (void* const output : fold.outputs.subspan(launched.outputs.size()))
    further.push_back({fold.outputs.front(), output, static_cast<std::size_t>(count) * size_of(dtype)});
  copy(stream, further);
}

}  // namespace lockstep::detail
